-- Care of the hierarchy: changes can be undone, and what the hierarchy was is kept. A closed category (merged or removed)
-- holds no chunk and no open child; its name_key is not a name, so that another category can have its name.
ALTER TABLE categories ADD COLUMN closed_at BIGINT;
ALTER TABLE categories ADD COLUMN merged_into BIGINT;
ALTER TABLE category_changes ADD COLUMN from_id BIGINT;
ALTER TABLE category_changes ADD COLUMN to_id BIGINT;
ALTER TABLE category_changes ADD COLUMN chunk_id BIGINT;
ALTER TABLE category_changes ADD COLUMN chunk_count BIGINT NOT NULL DEFAULT 0;
ALTER TABLE category_changes ADD COLUMN undone_at BIGINT;

-- A row holds a category's state that ended at until_at. There are no rows for the time before this migration, so the
-- hierarchy of earlier times is shown as it is now.
CREATE TABLE IF NOT EXISTS category_states (
    id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    space VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    category_id BIGINT NOT NULL,
    parent_id BIGINT,
    name VARCHAR(100) NOT NULL,
    closed SMALLINT NOT NULL,  -- 0 or 1
    until_at BIGINT NOT NULL,
    FOREIGN KEY (space, category_id) REFERENCES categories (space, id) ON DELETE CASCADE,
    KEY category_states_category (space, category_id, until_at, id)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Where chunks that have moved were filed, and are: a chunk without rows has always been where it is. There is no foreign
-- key to sources, because its lock would be taken in the wrong order; the store deletes both together.
CREATE TABLE IF NOT EXISTS chunk_placements (
    id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    space VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    source_id VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    chunk_id BIGINT NOT NULL,
    category_id BIGINT NOT NULL,
    from_at BIGINT NOT NULL,
    until_at BIGINT NOT NULL,  -- the largest number while the chunk is there
    placed_by VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,  -- as categories.named_by
    pinned SMALLINT NOT NULL,  -- 0 or 1: a person chose the category for this chunk, and no model moves it
    change_id BIGINT,  -- the change that moved it; none for filing and for second looks
    previous_id BIGINT,  -- the placement before
    FOREIGN KEY (space, category_id) REFERENCES categories (space, id) ON DELETE CASCADE,
    KEY chunk_placements_chunk (space, chunk_id, until_at),
    KEY chunk_placements_category (space, category_id, until_at),
    KEY chunk_placements_source (space, source_id, until_at),
    KEY chunk_placements_change (space, change_id, until_at)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
