-- Sources. Their texts are in source_versions.
CREATE TABLE sources (
    space TEXT NOT NULL,
    id TEXT NOT NULL,
    user_id TEXT NOT NULL,  -- the end user inside the space
    filename TEXT NOT NULL,
    filename_key TEXT NOT NULL,  -- the name, normalised: NFKC, case, spaces
    path TEXT NOT NULL,
    path_key TEXT NOT NULL,  -- the first half of the sha256 of path, because a path is too long for an index
    type TEXT NOT NULL,
    kind TEXT NOT NULL,
    eligible INTEGER NOT NULL,  -- 0 or 1
    latest_version INTEGER NOT NULL,  -- 0 until the first ingestion
    latest_size INTEGER NOT NULL DEFAULT 0,  -- bytes of the newest version; 0 until the first ingestion
    content_version_id INTEGER,  -- the version whose chunks are current
    created_at INTEGER NOT NULL,  -- all times are microseconds UTC
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (space, id)
);
CREATE UNIQUE INDEX sources_path ON sources (space, user_id, path_key);
CREATE INDEX sources_filename ON sources (space, user_id, filename_key);
CREATE INDEX sources_created ON sources (space, created_at, id);
CREATE INDEX sources_name ON sources (space, filename_key, id);
CREATE INDEX sources_size ON sources (space, latest_size, id);
CREATE INDEX sources_versions ON sources (space, latest_version, id);
CREATE INDEX sources_updated ON sources (space, updated_at, id);
CREATE INDEX sources_eligible ON sources (space, eligible);

CREATE TABLE source_tags (
    space TEXT NOT NULL,
    source_id TEXT NOT NULL,
    tag TEXT NOT NULL,
    position INTEGER NOT NULL,
    PRIMARY KEY (space, source_id, tag),
    FOREIGN KEY (space, source_id) REFERENCES sources (space, id) ON DELETE CASCADE
) WITHOUT ROWID;
CREATE INDEX source_tags_tag ON source_tags (space, tag, source_id);

-- Versions: one row per ingestion of a source, also for identical content. Rows are never changed.
CREATE TABLE source_versions (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    space TEXT NOT NULL,
    source_id TEXT NOT NULL,
    version INTEGER NOT NULL,
    sha256 TEXT NOT NULL,
    settings_key TEXT NOT NULL DEFAULT '',  -- how the text was cut and filed; equal content with equal settings shares its chunks
    size_bytes INTEGER NOT NULL,
    mtime INTEGER,
    char_count INTEGER NOT NULL,
    token_count INTEGER NOT NULL,
    provider TEXT,
    content_version_id INTEGER,  -- the earlier version whose chunks this one shares
    job_id TEXT,
    ingested_at INTEGER NOT NULL,
    topic TEXT,
    note TEXT,
    metadata_json TEXT NOT NULL,
    -- Last, so that SQLite can read the other columns without reading through the text.
    content TEXT NOT NULL,  -- empty if it is the text of content_version_id or of the filed chunks, joined
    FOREIGN KEY (space, source_id) REFERENCES sources (space, id) ON DELETE CASCADE
);
CREATE UNIQUE INDEX source_versions_id ON source_versions (space, id);
CREATE UNIQUE INDEX source_versions_version ON source_versions (space, source_id, version);

-- Contextual helpers: one paragraph that says what a source is, written by a model or a user.
CREATE TABLE contextual_helpers (
    space TEXT NOT NULL,
    source_id TEXT NOT NULL,
    version INTEGER NOT NULL,
    text TEXT NOT NULL,
    origin TEXT NOT NULL,  -- user or generated
    author TEXT,
    doc_date TEXT,
    topic TEXT,
    description TEXT,
    description_at INTEGER,  -- the character of text where the description begins, if description is NULL for being part of it
    token_count INTEGER NOT NULL,
    tokens_prompt INTEGER NOT NULL,
    tokens_completion INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (space, source_id, version),
    CONSTRAINT contextual_helpers_origin CHECK (origin IN ('user', 'generated')),
    FOREIGN KEY (space, source_id) REFERENCES sources (space, id) ON DELETE CASCADE
) WITHOUT ROWID;

-- One narrow row per version, to find it by user, source, time or length without reading its text.
CREATE TABLE document_versions (
    space TEXT NOT NULL,
    version_id INTEGER NOT NULL,
    source_id TEXT NOT NULL,
    user_id TEXT NOT NULL,
    ingested_at INTEGER NOT NULL,
    char_count INTEGER NOT NULL,
    PRIMARY KEY (space, version_id),
    FOREIGN KEY (space, source_id) REFERENCES sources (space, id) ON DELETE CASCADE
) WITHOUT ROWID;
CREATE INDEX document_versions_source ON document_versions (space, source_id, ingested_at, char_count, version_id);
CREATE INDEX document_versions_time ON document_versions (space, user_id, ingested_at, version_id);
CREATE INDEX document_versions_length ON document_versions (space, user_id, char_count, version_id);
