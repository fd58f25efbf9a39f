-- Erasures: the receipts of deletions. They name what was deleted only by a hash, and stay when their space is deleted.
CREATE TABLE erasures (
    space VARCHAR(64) NOT NULL,
    id VARCHAR(36) NOT NULL,
    seq BIGINT NOT NULL,  -- counts the erasures of the space
    kind VARCHAR(16) NOT NULL,  -- source, thread, memory, user or space
    subject_sha256 VARCHAR(64) NOT NULL,
    key_id VARCHAR(64),  -- the API key of the caller; none if the service requires no keys
    key_name VARCHAR(255),
    rows_json TEXT NOT NULL,  -- rows deleted or emptied, by table
    pending_json TEXT,  -- what is left to do; none when it is done
    created_at BIGINT NOT NULL,
    finished_at BIGINT,
    PRIMARY KEY (space, id)
);
CREATE INDEX erasures_list ON erasures (space, created_at, id);
CREATE INDEX erasures_subject ON erasures (space, subject_sha256, seq);
-- Spans spaces: unfinished erasures of all spaces are continued.
CREATE INDEX erasures_unfinished ON erasures (finished_at);

-- What stored receipts and responses hold text of, so that they are found when it is deleted.
CREATE TABLE text_uses (
    space VARCHAR(64) NOT NULL,
    used VARCHAR(64) NOT NULL,  -- the id of a source, thread, memory, job or query; or `user:` and a hash of the end user
    holder_kind VARCHAR(16) NOT NULL,  -- query or response
    holder_id VARCHAR(255) NOT NULL,  -- the query, or the idempotency key
    created_at BIGINT NOT NULL,
    PRIMARY KEY (space, used, holder_kind, holder_id)
);
CREATE INDEX text_uses_holder ON text_uses (space, holder_kind, holder_id);
-- Spans spaces: old rows of all spaces are deleted.
CREATE INDEX text_uses_created ON text_uses (holder_kind, created_at);

-- Receipts and responses that are older have no rows in text_uses.
INSERT INTO counters (space, name, window_start, value) VALUES ('', 'text_uses_since', 0, @now);

-- Nothing reads these outputs, which may quote texts.
UPDATE llm_calls SET output_json = NULL WHERE payer_kind IN ('context', 'request');
