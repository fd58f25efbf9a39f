-- The hierarchy: level 1 has no parent, every deeper level has one.
CREATE TABLE categories (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    space TEXT NOT NULL,
    parent_id INTEGER,
    parent_key INTEGER NOT NULL,  -- parent_id, or 0 on level 1, because a unique index treats NULLs as different
    level INTEGER NOT NULL,
    name TEXT NOT NULL,
    name_key TEXT NOT NULL,  -- the name, normalised: NFKC, case, spaces
    chunk_count INTEGER NOT NULL DEFAULT 0,  -- chunks of current versions below it
    named_by TEXT NOT NULL DEFAULT 'model',  -- who gave it its name: user, embedded (the embedded model) or model (another one)
    created_at INTEGER NOT NULL,
    CONSTRAINT categories_level CHECK (level BETWEEN 1 AND 100),
    CONSTRAINT categories_root CHECK ((level = 1 AND parent_id IS NULL AND parent_key = 0) OR (level > 1 AND parent_id IS NOT NULL AND parent_key <> 0)),
    FOREIGN KEY (space, parent_id) REFERENCES categories (space, id)
);
CREATE UNIQUE INDEX categories_id ON categories (space, id);
CREATE UNIQUE INDEX categories_name ON categories (space, parent_key, name_key);
CREATE INDEX categories_parent ON categories (space, parent_id);
CREATE INDEX categories_level_index ON categories (space, level);

-- Changes of the hierarchy. A change stays when its category is deleted.
CREATE TABLE category_changes (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    space TEXT NOT NULL,
    category_id INTEGER NOT NULL,
    kind TEXT NOT NULL,  -- rename
    before_json TEXT NOT NULL,
    after_json TEXT NOT NULL,
    actor TEXT NOT NULL,  -- as categories.named_by
    reason TEXT,
    created_at INTEGER NOT NULL
);
CREATE INDEX category_changes_list ON category_changes (space, id);
CREATE INDEX category_changes_category ON category_changes (space, category_id, id);

-- Former names of categories, under which texts are still filed.
CREATE TABLE category_aliases (
    space TEXT NOT NULL,
    parent_key INTEGER NOT NULL,
    name_key TEXT NOT NULL,
    category_id INTEGER NOT NULL,
    PRIMARY KEY (space, parent_key, name_key),
    FOREIGN KEY (space, category_id) REFERENCES categories (space, id) ON DELETE CASCADE
);
CREATE INDEX category_aliases_category ON category_aliases (space, category_id);

-- Chunks, verbatim. Filed chunks (profile taxonomy) belong to a leaf of the hierarchy.
CREATE TABLE chunks (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    space TEXT NOT NULL,
    source_id TEXT NOT NULL,
    version_id INTEGER NOT NULL,
    profile TEXT NOT NULL,
    ordinal INTEGER NOT NULL,
    token_count INTEGER NOT NULL,
    tokenizer TEXT NOT NULL DEFAULT '',  -- the tokenizer that counted the tokens
    char_count INTEGER NOT NULL,
    start_char INTEGER NOT NULL,
    end_char INTEGER NOT NULL,
    category_id INTEGER,
    created_at INTEGER NOT NULL,
    heading TEXT,  -- the headings above the chunk, highest first
    -- Last, so that SQLite can read the other columns without reading through the text.
    text_content TEXT NOT NULL,
    CONSTRAINT chunks_filed CHECK (profile <> 'taxonomy' OR category_id IS NOT NULL),
    -- A source is deleted with its versions, and these with their chunks.
    FOREIGN KEY (space, version_id) REFERENCES source_versions (space, id) ON DELETE CASCADE,
    FOREIGN KEY (space, category_id) REFERENCES categories (space, id)
);
CREATE UNIQUE INDEX chunks_ordinal ON chunks (space, version_id, profile, ordinal);
CREATE INDEX chunks_category ON chunks (space, category_id, created_at, id);
