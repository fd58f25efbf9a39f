-- Which memories were handed to a model for a turn of a thread, without text. Deleted with the message of the turn.
CREATE TABLE IF NOT EXISTS thread_receipts (
    space VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    id VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    thread_id VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    turn_key VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,  -- a hash of what the client sent: a repeated request is the same turn
    message_id VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,  -- what the user said
    reply_id VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin,  -- the newest reply
    model VARCHAR(300) NOT NULL,  -- provider:model
    memories_json LONGTEXT NOT NULL,  -- ids, in the order of the context
    context_tokens BIGINT NOT NULL,
    calls BIGINT NOT NULL,  -- requests of this turn, such as those of a tool loop
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (space, id),
    FOREIGN KEY (space, thread_id) REFERENCES threads (space, id) ON DELETE CASCADE,
    UNIQUE KEY thread_receipts_turn (space, thread_id, turn_key),
    KEY thread_receipts_message (space, message_id)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
