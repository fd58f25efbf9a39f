-- Which memories were handed to a model for a turn of a thread, without text. Deleted with the message of the turn.
CREATE TABLE thread_receipts (
    space TEXT NOT NULL,
    id TEXT NOT NULL,
    thread_id TEXT NOT NULL,
    turn_key TEXT NOT NULL,  -- a hash of what the client sent: a repeated request is the same turn
    message_id TEXT NOT NULL,  -- what the user said
    reply_id TEXT,  -- the newest reply
    model TEXT NOT NULL,  -- provider:model
    memories_json TEXT NOT NULL,  -- ids, in the order of the context
    context_tokens INTEGER NOT NULL,
    calls INTEGER NOT NULL,  -- requests of this turn, such as those of a tool loop
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (space, id),
    FOREIGN KEY (space, thread_id) REFERENCES threads (space, id) ON DELETE CASCADE
);
CREATE UNIQUE INDEX thread_receipts_turn ON thread_receipts (space, thread_id, turn_key);
CREATE INDEX thread_receipts_message ON thread_receipts (space, message_id);
