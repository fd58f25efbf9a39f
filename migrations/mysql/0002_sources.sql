-- Sources. Their texts are in source_versions.
CREATE TABLE IF NOT EXISTS sources (
    space VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    id VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    user_id VARCHAR(128) NOT NULL,  -- the end user inside the space
    filename VARCHAR(255) NOT NULL,
    filename_key VARCHAR(256) NOT NULL,  -- the name, normalised: NFKC, case, spaces
    path LONGTEXT NOT NULL,
    path_key VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,  -- the first half of the sha256 of path, because a path is too long for an index
    type VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    kind VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    eligible SMALLINT NOT NULL,  -- 0 or 1
    latest_version BIGINT NOT NULL,  -- 0 until the first ingestion
    latest_size BIGINT NOT NULL DEFAULT 0,  -- bytes of the newest version; 0 until the first ingestion
    content_version_id BIGINT,  -- the version whose chunks are current
    created_at BIGINT NOT NULL,  -- all times are microseconds UTC
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (space, id),
    UNIQUE KEY sources_path (space, user_id, path_key),
    KEY sources_filename (space, user_id, filename_key),
    KEY sources_created (space, created_at, id),
    KEY sources_name (space, filename_key, id),
    KEY sources_size (space, latest_size, id),
    KEY sources_versions (space, latest_version, id),
    KEY sources_updated (space, updated_at, id),
    KEY sources_eligible (space, eligible)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS source_tags (
    space VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    source_id VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    tag VARCHAR(100) NOT NULL,
    position BIGINT NOT NULL,
    PRIMARY KEY (space, source_id, tag),
    FOREIGN KEY (space, source_id) REFERENCES sources (space, id) ON DELETE CASCADE,
    KEY source_tags_tag (space, tag, source_id)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Versions: one row per ingestion of a source, also for identical content. Rows are never changed.
CREATE TABLE IF NOT EXISTS source_versions (
    id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    space VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    source_id VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    version BIGINT NOT NULL,
    sha256 VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    settings_key VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '',  -- how the text was cut and filed; equal content with equal settings shares its chunks
    size_bytes BIGINT NOT NULL,
    mtime BIGINT,
    char_count BIGINT NOT NULL,
    token_count BIGINT NOT NULL,
    provider VARCHAR(255),
    content_version_id BIGINT,  -- the earlier version whose chunks this one shares
    job_id VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin,
    ingested_at BIGINT NOT NULL,
    topic LONGTEXT,
    note LONGTEXT,
    metadata_json LONGTEXT NOT NULL,
    -- Last, so that SQLite can read the other columns without reading through the text.
    content LONGTEXT NOT NULL,  -- empty if it is the text of content_version_id or of the filed chunks, joined
    FOREIGN KEY (space, source_id) REFERENCES sources (space, id) ON DELETE CASCADE,
    UNIQUE KEY source_versions_id (space, id),
    UNIQUE KEY source_versions_version (space, source_id, version)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Contextual helpers: one paragraph that says what a source is, written by a model or a user.
CREATE TABLE IF NOT EXISTS contextual_helpers (
    space VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    source_id VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    version BIGINT NOT NULL,
    text LONGTEXT NOT NULL,
    origin VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,  -- user or generated
    author LONGTEXT,
    doc_date LONGTEXT,
    topic LONGTEXT,
    description LONGTEXT,
    description_at BIGINT,  -- the character of text where the description begins, if description is NULL for being part of it
    token_count BIGINT NOT NULL,
    tokens_prompt BIGINT NOT NULL,
    tokens_completion BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (space, source_id, version),
    CONSTRAINT contextual_helpers_origin CHECK (origin IN ('user', 'generated')),
    FOREIGN KEY (space, source_id) REFERENCES sources (space, id) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- One narrow row per version, to find it by user, source, time or length without reading its text.
CREATE TABLE IF NOT EXISTS document_versions (
    space VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    version_id BIGINT NOT NULL,
    source_id VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    user_id VARCHAR(128) NOT NULL,
    ingested_at BIGINT NOT NULL,
    char_count BIGINT NOT NULL,
    PRIMARY KEY (space, version_id),
    FOREIGN KEY (space, source_id) REFERENCES sources (space, id) ON DELETE CASCADE,
    KEY document_versions_source (space, source_id, ingested_at, char_count, version_id),
    KEY document_versions_time (space, user_id, ingested_at, version_id),
    KEY document_versions_length (space, user_id, char_count, version_id)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
