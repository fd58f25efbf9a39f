-- Query receipts: the query, the options, the choices and what was dropped. No chunk text.
CREATE TABLE queries (
    space VARCHAR(64) NOT NULL,
    id VARCHAR(36) NOT NULL,
    user_id VARCHAR(128) NOT NULL,  -- the end user whose sources were queried; empty for all
    request_json TEXT NOT NULL,
    receipt_json TEXT NOT NULL,
    state VARCHAR(16) NOT NULL,  -- succeeded or failed
    answer_chars BIGINT NOT NULL,
    elapsed_ms DOUBLE PRECISION NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (space, id)
);
CREATE INDEX queries_created ON queries (space, created_at, id);
