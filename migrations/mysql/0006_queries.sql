-- Query receipts: the query, the options, the choices and what was dropped. No chunk text.
CREATE TABLE IF NOT EXISTS queries (
    space VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    id VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    user_id VARCHAR(128) NOT NULL,  -- the end user whose sources were queried; empty for all
    request_json LONGTEXT NOT NULL,
    receipt_json LONGTEXT NOT NULL,
    state VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,  -- succeeded or failed
    answer_chars BIGINT NOT NULL,
    elapsed_ms DOUBLE NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (space, id),
    KEY queries_created (space, created_at, id)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
