-- Care of the hierarchy: changes can be undone, and what the hierarchy was is kept. A closed category (merged or removed)
-- holds no chunk and no open child; its name_key is not a name, so that another category can have its name.
ALTER TABLE categories ADD COLUMN closed_at INTEGER;
ALTER TABLE categories ADD COLUMN merged_into INTEGER;
ALTER TABLE category_changes ADD COLUMN from_id INTEGER;
ALTER TABLE category_changes ADD COLUMN to_id INTEGER;
ALTER TABLE category_changes ADD COLUMN chunk_id INTEGER;
ALTER TABLE category_changes ADD COLUMN chunk_count INTEGER NOT NULL DEFAULT 0;
ALTER TABLE category_changes ADD COLUMN undone_at INTEGER;

-- A row holds a category's state that ended at until_at. There are no rows for the time before this migration, so the
-- hierarchy of earlier times is shown as it is now.
CREATE TABLE category_states (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    space TEXT NOT NULL,
    category_id INTEGER NOT NULL,
    parent_id INTEGER,
    name TEXT NOT NULL,
    closed INTEGER NOT NULL,  -- 0 or 1
    until_at INTEGER NOT NULL,
    FOREIGN KEY (space, category_id) REFERENCES categories (space, id) ON DELETE CASCADE
);
CREATE INDEX category_states_category ON category_states (space, category_id, until_at, id);

-- Where chunks that have moved were filed, and are: a chunk without rows has always been where it is. There is no foreign
-- key to sources, because its lock would be taken in the wrong order; the store deletes both together.
CREATE TABLE chunk_placements (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    space TEXT NOT NULL,
    source_id TEXT NOT NULL,
    chunk_id INTEGER NOT NULL,
    category_id INTEGER NOT NULL,
    from_at INTEGER NOT NULL,
    until_at INTEGER NOT NULL,  -- the largest number while the chunk is there
    placed_by TEXT NOT NULL,  -- as categories.named_by
    pinned INTEGER NOT NULL,  -- 0 or 1: a person chose the category for this chunk, and no model moves it
    change_id INTEGER,  -- the change that moved it; none for filing and for second looks
    previous_id INTEGER,  -- the placement before
    FOREIGN KEY (space, category_id) REFERENCES categories (space, id) ON DELETE CASCADE
);
CREATE INDEX chunk_placements_chunk ON chunk_placements (space, chunk_id, until_at);
CREATE INDEX chunk_placements_category ON chunk_placements (space, category_id, until_at);
CREATE INDEX chunk_placements_source ON chunk_placements (space, source_id, until_at);
CREATE INDEX chunk_placements_change ON chunk_placements (space, change_id, until_at);
