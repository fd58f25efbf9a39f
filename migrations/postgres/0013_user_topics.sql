-- The topics and entities of memories by user: a space has many users, and a context reads those of one.
ALTER TABLE memory_topics ADD COLUMN user_id VARCHAR(128) NOT NULL DEFAULT '';
UPDATE memory_topics SET user_id = (SELECT m.user_id FROM memories m WHERE m.space = memory_topics.space AND m.id = memory_topics.memory_id);
DROP INDEX idx_topics;
CREATE INDEX idx_topics ON memory_topics (space, user_id, topic, memory_id);
ALTER TABLE memory_entities ADD COLUMN user_id VARCHAR(128) NOT NULL DEFAULT '';
UPDATE memory_entities SET user_id = (SELECT m.user_id FROM memories m WHERE m.space = memory_entities.space AND m.id = memory_entities.memory_id);
DROP INDEX idx_entities;
CREATE INDEX idx_entities ON memory_entities (space, user_id, value, memory_id);

-- All that the choice among a user's memories of other threads reads.
DROP INDEX idx_user_topics_time;
CREATE INDEX idx_user_topics_time ON memories (space, user_id, has_topics, created_at DESC, thread_id, superseded_by, importance, category, id, seq);
