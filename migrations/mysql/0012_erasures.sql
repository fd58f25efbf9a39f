-- Erasures: the receipts of deletions. They name what was deleted only by a hash, and stay when their space is deleted.
CREATE TABLE IF NOT EXISTS erasures (
    space VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    id VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    seq BIGINT NOT NULL,  -- counts the erasures of the space
    kind VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,  -- source, thread, memory, user or space
    subject_sha256 VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    key_id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin,  -- the API key of the caller; none if the service requires no keys
    key_name VARCHAR(255),
    rows_json LONGTEXT NOT NULL,  -- rows deleted or emptied, by table
    pending_json LONGTEXT,  -- what is left to do; none when it is done
    created_at BIGINT NOT NULL,
    finished_at BIGINT,
    PRIMARY KEY (space, id),
    KEY erasures_list (space, created_at, id),
    KEY erasures_subject (space, subject_sha256, seq),
    KEY erasures_unfinished (finished_at)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- What stored receipts and responses hold text of, so that they are found when it is deleted.
CREATE TABLE IF NOT EXISTS text_uses (
    space VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    used VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,  -- the id of a source, thread, memory, job or query; or `user:` and a hash of the end user
    holder_kind VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,  -- query or response
    holder_id VARCHAR(255) NOT NULL,  -- the query, or the idempotency key
    created_at BIGINT NOT NULL,
    PRIMARY KEY (space, used, holder_kind, holder_id),
    KEY text_uses_holder (space, holder_kind, holder_id),
    KEY text_uses_created (holder_kind, created_at)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Receipts and responses that are older have no rows in text_uses.
INSERT IGNORE INTO counters (space, name, window_start, value) VALUES ('', 'text_uses_since', 0, @now);

-- Nothing reads these outputs, which may quote texts.
UPDATE llm_calls SET output_json = NULL WHERE payer_kind IN ('context', 'request');
