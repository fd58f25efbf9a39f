-- The hierarchy: level 1 has no parent, every deeper level has one.
CREATE TABLE IF NOT EXISTS categories (
    id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    space VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    parent_id BIGINT,
    parent_key BIGINT NOT NULL,  -- parent_id, or 0 on level 1, because a unique index treats NULLs as different
    level BIGINT NOT NULL,
    name VARCHAR(100) NOT NULL,
    name_key VARCHAR(400) NOT NULL,  -- the name, normalised: NFKC, case, spaces
    chunk_count BIGINT NOT NULL DEFAULT 0,  -- chunks of current versions below it
    named_by VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT 'model',  -- who gave it its name: user, embedded (the embedded model) or model (another one)
    created_at BIGINT NOT NULL,
    CONSTRAINT categories_level CHECK (level BETWEEN 1 AND 100),
    CONSTRAINT categories_root CHECK ((level = 1 AND parent_id IS NULL AND parent_key = 0) OR (level > 1 AND parent_id IS NOT NULL AND parent_key <> 0)),
    FOREIGN KEY (space, parent_id) REFERENCES categories (space, id),
    UNIQUE KEY categories_id (space, id),
    UNIQUE KEY categories_name (space, parent_key, name_key),
    KEY categories_parent (space, parent_id),
    KEY categories_level_index (space, level)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Changes of the hierarchy. A change stays when its category is deleted.
CREATE TABLE IF NOT EXISTS category_changes (
    id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    space VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    category_id BIGINT NOT NULL,
    kind VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,  -- rename
    before_json LONGTEXT NOT NULL,
    after_json LONGTEXT NOT NULL,
    actor VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,  -- as categories.named_by
    reason LONGTEXT,
    created_at BIGINT NOT NULL,
    KEY category_changes_list (space, id),
    KEY category_changes_category (space, category_id, id)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Former names of categories, under which texts are still filed.
CREATE TABLE IF NOT EXISTS category_aliases (
    space VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    parent_key BIGINT NOT NULL,
    name_key VARCHAR(400) NOT NULL,
    category_id BIGINT NOT NULL,
    PRIMARY KEY (space, parent_key, name_key),
    KEY category_aliases_category (space, category_id),
    FOREIGN KEY (space, category_id) REFERENCES categories (space, id) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Chunks, verbatim. Filed chunks (profile taxonomy) belong to a leaf of the hierarchy.
CREATE TABLE IF NOT EXISTS chunks (
    id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    space VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    source_id VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    version_id BIGINT NOT NULL,
    profile VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    ordinal BIGINT NOT NULL,
    token_count BIGINT NOT NULL,
    tokenizer VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '',  -- the tokenizer that counted the tokens
    char_count BIGINT NOT NULL,
    start_char BIGINT NOT NULL,
    end_char BIGINT NOT NULL,
    category_id BIGINT,
    created_at BIGINT NOT NULL,
    heading LONGTEXT,  -- the headings above the chunk, highest first
    -- Last, so that SQLite can read the other columns without reading through the text.
    text_content LONGTEXT NOT NULL,
    CONSTRAINT chunks_filed CHECK (profile <> 'taxonomy' OR category_id IS NOT NULL),
    -- A source is deleted with its versions, and these with their chunks.
    FOREIGN KEY (space, version_id) REFERENCES source_versions (space, id) ON DELETE CASCADE,
    FOREIGN KEY (space, category_id) REFERENCES categories (space, id),
    UNIQUE KEY chunks_ordinal (space, version_id, profile, ordinal),
    KEY chunks_category (space, category_id, created_at, id)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
