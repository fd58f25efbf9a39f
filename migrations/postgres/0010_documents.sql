-- One narrow row for each version, to find it by its user, its source, its time or its length without reading its text.
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

-- The words that a source can be found by: of its name, of what is said of it, of its text. '=' and the folded name is its whole name.
CREATE TABLE document_words (
    space VARCHAR(64) NOT NULL,
    user_id VARCHAR(128) NOT NULL,
    word VARCHAR(256) NOT NULL,
    source_id VARCHAR(36) NOT NULL,
    PRIMARY KEY (space, user_id, word, source_id),
    FOREIGN KEY (space, source_id) REFERENCES sources (space, id) ON DELETE CASCADE
);
CREATE INDEX document_words_source ON document_words (space, source_id);

-- What is there already; the words of its texts come with its next versions.
INSERT INTO document_versions (space, version_id, source_id, user_id, ingested_at, char_count)
SELECT v.space, v.id, v.source_id, s.user_id, v.ingested_at, v.char_count
FROM source_versions v JOIN sources s ON s.space = v.space AND s.id = v.source_id;
INSERT INTO document_words (space, user_id, word, source_id)
SELECT space, user_id, SUBSTR('=' || LOWER(filename), 1, 256), id FROM sources;
