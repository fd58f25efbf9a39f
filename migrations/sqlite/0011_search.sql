-- What a search compares by words: the terms of a chunk, each once, grouped by how often it occurs.
CREATE TABLE chunk_terms (
    space TEXT NOT NULL,
    chunk_id INTEGER NOT NULL PRIMARY KEY,
    source_id TEXT NOT NULL,
    version_id INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    length INTEGER NOT NULL,  -- terms, stop words not counted
    tokens TEXT NOT NULL,
    FOREIGN KEY (chunk_id) REFERENCES chunks (id) ON DELETE CASCADE
);
CREATE INDEX chunk_terms_space ON chunk_terms (space, chunk_id);

-- The full-text index. It spans spaces: whoever asks it joins chunk_terms for the space.
CREATE VIRTUAL TABLE chunk_terms_tokens USING fts5 (tokens, content = 'chunk_terms', content_rowid = 'chunk_id', detail = 'none', columnsize = 0, tokenize = 'ascii');
CREATE TRIGGER chunk_terms_added AFTER INSERT ON chunk_terms BEGIN INSERT INTO chunk_terms_tokens (rowid, tokens) VALUES (new.chunk_id, new.tokens); END;
CREATE TRIGGER chunk_terms_removed AFTER DELETE ON chunk_terms BEGIN INSERT INTO chunk_terms_tokens (chunk_terms_tokens, rowid, tokens) VALUES ('delete', old.chunk_id, old.tokens); END;

-- What a search compares by meaning. Owners are of several kinds, so no foreign key: the store removes both together.
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
