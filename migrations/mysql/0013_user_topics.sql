-- The topics and entities of memories by user: a space has many users, and a context reads those of one.
ALTER TABLE memory_topics ADD COLUMN user_id VARCHAR(128) NOT NULL DEFAULT '';
UPDATE memory_topics t JOIN memories m ON m.space = t.space AND m.id = t.memory_id SET t.user_id = m.user_id;
ALTER TABLE memory_topics DROP KEY idx_topics, ADD KEY idx_topics (space, user_id, topic, memory_id);
ALTER TABLE memory_entities ADD COLUMN user_id VARCHAR(128) NOT NULL DEFAULT '';
UPDATE memory_entities e JOIN memories m ON m.space = e.space AND m.id = e.memory_id SET e.user_id = m.user_id;
ALTER TABLE memory_entities DROP KEY idx_entities, ADD KEY idx_entities (space, user_id, value, memory_id);

-- All that the choice among a user's memories of other threads reads.
ALTER TABLE memories DROP KEY idx_user_topics_time, ADD KEY idx_user_topics_time (space, user_id, has_topics, created_at DESC, thread_id, superseded_by, importance, category, id, seq);
