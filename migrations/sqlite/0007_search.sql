-- Search entries: the terms of a text, each once, grouped by how often it occurs. An entry belongs to its owner. Owners
-- are of several kinds, so there is no foreign key: the store deletes both together.
CREATE TABLE search_entries (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    space TEXT NOT NULL,
    owner_kind TEXT NOT NULL,  -- chunk, source or memory
    owner_id INTEGER NOT NULL,
    group_id TEXT NOT NULL,  -- the source, or a hash of the user of a memory
    version_id INTEGER NOT NULL,  -- of the source; 0 where the owner has no versions
    created_at INTEGER NOT NULL,
    length INTEGER NOT NULL,  -- number of terms without stop words
    tokens TEXT NOT NULL
);
CREATE UNIQUE INDEX search_entries_owner ON search_entries (space, owner_kind, owner_id);
CREATE INDEX search_entries_kind ON search_entries (space, owner_kind, id);
CREATE INDEX search_entries_group ON search_entries (space, owner_kind, group_id);

-- The full-text index. It spans spaces: every search also joins search_entries for the space.
CREATE VIRTUAL TABLE search_entries_tokens USING fts5 (tokens, content = 'search_entries', content_rowid = 'id', detail = 'none', columnsize = 0, tokenize = 'ascii');
CREATE TRIGGER search_entries_added AFTER INSERT ON search_entries BEGIN INSERT INTO search_entries_tokens (rowid, tokens) VALUES (new.id, new.tokens); END;
CREATE TRIGGER search_entries_removed AFTER DELETE ON search_entries BEGIN INSERT INTO search_entries_tokens (search_entries_tokens, rowid, tokens) VALUES ('delete', old.id, old.tokens); END;

-- The vectors of search entries. The store deletes an entry and its vectors together.
CREATE TABLE embeddings (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    space TEXT NOT NULL,
    owner_kind TEXT NOT NULL,  -- as its entry has it
    entry_id INTEGER NOT NULL,
    model TEXT NOT NULL,  -- provider:model
    dim INTEGER NOT NULL,
    vector BLOB NOT NULL,  -- a scale as float32, then one 16-bit integer per number; see base/vector_bytes.rs
    created_at INTEGER NOT NULL
);
CREATE UNIQUE INDEX embeddings_entry ON embeddings (space, owner_kind, entry_id, model);

-- Sources that changed for searches without new entries, by the write counter of the space. Indexes in memory read them.
CREATE TABLE search_changes (
    space TEXT NOT NULL,
    seq INTEGER NOT NULL,
    group_id TEXT NOT NULL,
    created_at INTEGER NOT NULL,  -- by the database's clock
    PRIMARY KEY (space, seq, group_id)
);
-- Spans spaces: old rows of all spaces are deleted.
CREATE INDEX search_changes_created ON search_changes (created_at);
