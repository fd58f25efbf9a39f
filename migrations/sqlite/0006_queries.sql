-- Query receipts: the query, the options, the choices and what was dropped. No chunk text.
CREATE TABLE queries (
    space TEXT NOT NULL,
    id TEXT NOT NULL,
    user_id TEXT NOT NULL,  -- the end user whose sources were queried; empty for all
    request_json TEXT NOT NULL,
    receipt_json TEXT NOT NULL,
    state TEXT NOT NULL,  -- succeeded or failed
    answer_chars INTEGER NOT NULL,
    elapsed_ms REAL NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (space, id)
);
CREATE INDEX queries_created ON queries (space, created_at, id);
