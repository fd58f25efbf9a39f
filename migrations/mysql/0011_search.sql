-- For keyword search: the terms of a chunk, each once, grouped by frequency.
-- The full-text index spans spaces, so a statement also names the space.
CREATE TABLE IF NOT EXISTS chunk_terms (
    space VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    chunk_id BIGINT NOT NULL PRIMARY KEY,
    source_id VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    version_id BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    length BIGINT NOT NULL,  -- number of terms without stop words
    tokens LONGTEXT CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    FOREIGN KEY (chunk_id) REFERENCES chunks (id) ON DELETE CASCADE,
    KEY chunk_terms_space (space, chunk_id),
    FULLTEXT KEY chunk_terms_tokens (tokens)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- For search by meaning. Owners can be of several kinds, so there is no foreign key; the store deletes both together.
CREATE TABLE IF NOT EXISTS embeddings (
    id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    space VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    owner_kind VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,  -- chunk
    owner_id BIGINT NOT NULL,
    model VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,  -- provider:model
    dim BIGINT NOT NULL,
    vector LONGBLOB NOT NULL,  -- float32, little-endian
    created_at BIGINT NOT NULL,
    UNIQUE KEY embeddings_owner (space, owner_kind, owner_id, model)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
