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

-- The words by which a source can be found: of its name, its metadata and its text. '=' and the normalised name stands for the whole name.
CREATE TABLE IF NOT EXISTS document_words (
    space VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    user_id VARCHAR(128) NOT NULL,
    word VARCHAR(256) NOT NULL,
    source_id VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    PRIMARY KEY (space, user_id, word, source_id),
    FOREIGN KEY (space, source_id) REFERENCES sources (space, id) ON DELETE CASCADE,
    KEY document_words_source (space, source_id)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Fills in existing sources. The words of their texts follow with their next versions.
INSERT IGNORE INTO document_versions (space, version_id, source_id, user_id, ingested_at, char_count)
SELECT v.space, v.id, v.source_id, s.user_id, v.ingested_at, v.char_count
FROM source_versions v JOIN sources s ON s.space = v.space AND s.id = v.source_id;
INSERT IGNORE INTO document_words (space, user_id, word, source_id)
SELECT space, user_id, SUBSTR(CONCAT('=', LOWER(filename)), 1, 256), id FROM sources;
