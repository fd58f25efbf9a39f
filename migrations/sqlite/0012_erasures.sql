-- Erasures: the receipts of deletions. They name what was deleted only by a hash, and stay when their space is deleted.
CREATE TABLE erasures (
    space TEXT NOT NULL,
    id TEXT NOT NULL,
    seq INTEGER NOT NULL,  -- counts the erasures of the space
    kind TEXT NOT NULL,  -- source, thread, memory, user or space
    subject_sha256 TEXT NOT NULL,
    key_id TEXT,  -- the API key of the caller; none if the service requires no keys
    key_name TEXT,
    rows_json TEXT NOT NULL,  -- rows deleted or emptied, by table
    pending_json TEXT,  -- what is left to do; none when it is done
    created_at INTEGER NOT NULL,
    finished_at INTEGER,
    PRIMARY KEY (space, id)
);
CREATE INDEX erasures_list ON erasures (space, created_at, id);
CREATE INDEX erasures_subject ON erasures (space, subject_sha256, seq);
-- Spans spaces: unfinished erasures of all spaces are continued.
CREATE INDEX erasures_unfinished ON erasures (finished_at);

-- What stored receipts and responses hold text of, so that they are found when it is deleted.
CREATE TABLE text_uses (
    space TEXT NOT NULL,
    used TEXT NOT NULL,  -- the id of a source, thread, memory, job or query; or `user:` and a hash of the end user
    holder_kind TEXT NOT NULL,  -- query or response
    holder_id TEXT NOT NULL,  -- the query, or the idempotency key
    created_at INTEGER NOT NULL,
    PRIMARY KEY (space, used, holder_kind, holder_id)
) WITHOUT ROWID;
CREATE INDEX text_uses_holder ON text_uses (space, holder_kind, holder_id);
-- Spans spaces: old rows of all spaces are deleted.
CREATE INDEX text_uses_created ON text_uses (holder_kind, created_at);

-- Receipts and responses that are older have no rows in text_uses.
INSERT INTO counters (space, name, window_start, value) VALUES ('', 'text_uses_since', 0, @now);

-- Nothing reads these outputs, which may quote texts.
UPDATE llm_calls SET output_json = NULL WHERE payer_kind IN ('context', 'request');

-- Deleted words are overwritten in the full-text index, and those deleted earlier are left out.
INSERT INTO search_entries_tokens (search_entries_tokens, rank) VALUES ('secure-delete', 1);
INSERT INTO search_entries_tokens (search_entries_tokens) VALUES ('rebuild');
