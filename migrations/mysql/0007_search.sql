-- Search entries: the terms of a text, each once, grouped by how often it occurs. An entry belongs to its owner. Owners
-- are of several kinds, so there is no foreign key: the store deletes both together.
-- The full-text index spans spaces: every search also names the space.
CREATE TABLE IF NOT EXISTS search_entries (
    id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    space VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    owner_kind VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,  -- chunk, source or memory
    owner_id BIGINT NOT NULL,
    group_id VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,  -- the source, or a hash of the user of a memory
    version_id BIGINT NOT NULL,  -- of the source; 0 where the owner has no versions
    created_at BIGINT NOT NULL,
    length BIGINT NOT NULL,  -- number of terms without stop words
    tokens LONGTEXT CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    UNIQUE KEY search_entries_owner (space, owner_kind, owner_id),
    KEY search_entries_kind (space, owner_kind, id),
    KEY search_entries_group (space, owner_kind, group_id),
    FULLTEXT KEY search_entries_tokens (tokens)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- The vectors of search entries. The store deletes an entry and its vectors together.
CREATE TABLE IF NOT EXISTS embeddings (
    id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    space VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    owner_kind VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,  -- as its entry has it
    entry_id BIGINT NOT NULL,
    model VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,  -- provider:model
    dim BIGINT NOT NULL,
    vector LONGBLOB NOT NULL,  -- a scale as float32, then one 16-bit integer per number; see base/vector_bytes.rs
    created_at BIGINT NOT NULL,
    UNIQUE KEY embeddings_entry (space, owner_kind, entry_id, model)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Sources that changed for searches without new entries, by the write counter of the space. Indexes in memory read them. The index on created_at spans spaces: old rows of all spaces are deleted.
CREATE TABLE IF NOT EXISTS search_changes (
    space VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    seq BIGINT NOT NULL,
    group_id VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    created_at BIGINT NOT NULL,  -- by the database's clock
    PRIMARY KEY (space, seq, group_id),
    KEY search_changes_created (created_at)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
