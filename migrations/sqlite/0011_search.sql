-- For keyword search: the terms of a chunk, each once, grouped by frequency.
CREATE TABLE chunk_terms (
    space TEXT NOT NULL,
    chunk_id INTEGER NOT NULL PRIMARY KEY,
    source_id TEXT NOT NULL,
    version_id INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    length INTEGER NOT NULL,  -- number of terms without stop words
    tokens TEXT NOT NULL,
    FOREIGN KEY (chunk_id) REFERENCES chunks (id) ON DELETE CASCADE
);
CREATE INDEX chunk_terms_space ON chunk_terms (space, chunk_id);

-- The full-text index. It spans spaces, so a statement joins chunk_terms to limit it to one.
CREATE VIRTUAL TABLE chunk_terms_tokens USING fts5 (tokens, content = 'chunk_terms', content_rowid = 'chunk_id', detail = 'none', columnsize = 0, tokenize = 'ascii');
CREATE TRIGGER chunk_terms_added AFTER INSERT ON chunk_terms BEGIN INSERT INTO chunk_terms_tokens (rowid, tokens) VALUES (new.chunk_id, new.tokens); END;
CREATE TRIGGER chunk_terms_removed AFTER DELETE ON chunk_terms BEGIN INSERT INTO chunk_terms_tokens (chunk_terms_tokens, rowid, tokens) VALUES ('delete', old.chunk_id, old.tokens); END;

-- For search by meaning. Owners can be of several kinds, so there is no foreign key; the store deletes both together.
CREATE TABLE embeddings (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    space TEXT NOT NULL,
    owner_kind TEXT NOT NULL,  -- chunk
    owner_id INTEGER NOT NULL,
    model TEXT NOT NULL,  -- provider:model
    dim INTEGER NOT NULL,
    vector BLOB NOT NULL,  -- float32, little-endian
    created_at INTEGER NOT NULL
);
CREATE UNIQUE INDEX embeddings_owner ON embeddings (space, owner_kind, owner_id, model);
