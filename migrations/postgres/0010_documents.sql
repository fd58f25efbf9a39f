-- One narrow row per version, to find it by user, source, time or length without reading its text.
CREATE TABLE document_versions (
    space VARCHAR(64) NOT NULL,
    version_id BIGINT NOT NULL,
    source_id VARCHAR(36) NOT NULL,
    user_id VARCHAR(128) NOT NULL,
    ingested_at BIGINT NOT NULL,
    char_count BIGINT NOT NULL,
    PRIMARY KEY (space, version_id),
    FOREIGN KEY (space, source_id) REFERENCES sources (space, id) ON DELETE CASCADE
);
CREATE INDEX document_versions_source ON document_versions (space, source_id, ingested_at, char_count, version_id);
CREATE INDEX document_versions_time ON document_versions (space, user_id, ingested_at, version_id);
CREATE INDEX document_versions_length ON document_versions (space, user_id, char_count, version_id);

-- The words by which a source can be found: of its name, its metadata and its text. '=' and the normalised name stands for the whole name.
CREATE TABLE document_words (
    space VARCHAR(64) NOT NULL,
    user_id VARCHAR(128) NOT NULL,
    word VARCHAR(256) NOT NULL,
    source_id VARCHAR(36) NOT NULL,
    PRIMARY KEY (space, user_id, word, source_id),
    FOREIGN KEY (space, source_id) REFERENCES sources (space, id) ON DELETE CASCADE
);
CREATE INDEX document_words_source ON document_words (space, source_id);

-- Fills in existing sources. The words of their texts follow with their next versions.
INSERT INTO document_versions (space, version_id, source_id, user_id, ingested_at, char_count)
SELECT v.space, v.id, v.source_id, s.user_id, v.ingested_at, v.char_count
FROM source_versions v JOIN sources s ON s.space = v.space AND s.id = v.source_id;
INSERT INTO document_words (space, user_id, word, source_id)
SELECT space, user_id, SUBSTR('=' || LOWER(filename), 1, 256), id FROM sources;
