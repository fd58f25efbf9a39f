-- Conversations: threads and what is kept from them or about a user.
CREATE TABLE threads (
    space TEXT NOT NULL,
    id TEXT NOT NULL,
    user_id TEXT NOT NULL,  -- the end user inside the space
    title TEXT,
    message_count INTEGER NOT NULL,
    turn_count INTEGER NOT NULL,  -- a turn begins with a message of the user
    created_at INTEGER NOT NULL,  -- all times are microseconds UTC
    updated_at INTEGER NOT NULL,
    last_message_at INTEGER NOT NULL,  -- 0 if there is no message
    PRIMARY KEY (space, id)
);
CREATE INDEX threads_user ON threads (space, user_id, created_at, id);
CREATE INDEX threads_newest ON threads (space, created_at, id);
CREATE INDEX threads_active ON threads (space, last_message_at, id);

-- Messages, facts, preferences and summaries. Texts are never changed; only what is said about them.
CREATE TABLE memories (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    space TEXT NOT NULL,
    id TEXT NOT NULL,
    user_id TEXT NOT NULL,
    thread_id TEXT,
    type TEXT NOT NULL,  -- message, fact, preference or summary
    role TEXT NOT NULL,  -- user, assistant or system
    title TEXT,
    content_hash TEXT NOT NULL,
    source TEXT NOT NULL,  -- chat, external, client or model
    file_path TEXT,
    file_sha256 TEXT,
    file_mtime INTEGER,
    turn_index INTEGER NOT NULL,  -- 0 outside a thread
    category TEXT,
    message_type TEXT,
    own_importance REAL,  -- as classified or given
    importance REAL,  -- the same, raised by its uses and its mark
    important INTEGER NOT NULL,  -- 0 or 1
    pinned INTEGER NOT NULL,  -- 0 or 1
    confidence TEXT,
    suggested_topic TEXT,
    suggested_category TEXT,
    has_topics INTEGER NOT NULL,  -- 0 or 1
    tier TEXT NOT NULL,  -- long_term, or by_age
    access_count INTEGER NOT NULL,
    vocabulary_version TEXT,
    enrichment_model TEXT,
    enrichment_state TEXT NOT NULL,  -- pending, done, failed or none
    enrichment_job TEXT,
    enrichment_begun INTEGER NOT NULL,  -- 1: a model was asked about it by that job
    superseded_by TEXT,
    superseded_at INTEGER,
    created_at INTEGER NOT NULL,
    stored_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    last_access_at INTEGER,
    labels_json TEXT NOT NULL,  -- topics, entities and tags, also in the tables below
    evidence_json TEXT,  -- the messages that it rests on
    -- Last, so that SQLite can read the other columns without reading through the text.
    content TEXT NOT NULL,
    FOREIGN KEY (space, thread_id) REFERENCES threads (space, id) ON DELETE CASCADE
);
CREATE UNIQUE INDEX memories_id ON memories (space, id);
CREATE INDEX idx_user_time ON memories (space, user_id, created_at DESC);
CREATE INDEX idx_user_thread_time ON memories (space, user_id, thread_id, created_at DESC);
CREATE INDEX idx_thread_turn ON memories (space, thread_id, turn_index);
CREATE INDEX idx_category ON memories (space, user_id, category);
CREATE INDEX idx_tier_importance ON memories (space, user_id, tier, importance DESC);
CREATE INDEX idx_low_confidence ON memories (space, confidence, suggested_topic);
CREATE INDEX idx_user_topics_time ON memories (space, user_id, has_topics, created_at DESC);
CREATE INDEX idx_content_hash ON memories (space, user_id, content_hash);
CREATE INDEX idx_enrichment_state ON memories (space, enrichment_state, seq);
CREATE INDEX idx_enrichment_job ON memories (space, enrichment_job);

CREATE TABLE memory_topics (
    space TEXT NOT NULL,
    memory_id TEXT NOT NULL,
    topic TEXT NOT NULL,
    position INTEGER NOT NULL,
    PRIMARY KEY (space, memory_id, topic),
    FOREIGN KEY (space, memory_id) REFERENCES memories (space, id) ON DELETE CASCADE
);
CREATE INDEX idx_topics ON memory_topics (space, topic, memory_id);

CREATE TABLE memory_entities (
    space TEXT NOT NULL,
    memory_id TEXT NOT NULL,
    position INTEGER NOT NULL,
    type TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (space, memory_id, position),
    FOREIGN KEY (space, memory_id) REFERENCES memories (space, id) ON DELETE CASCADE
);
CREATE INDEX idx_entities ON memory_entities (space, value, memory_id);

CREATE TABLE memory_tags (
    space TEXT NOT NULL,
    memory_id TEXT NOT NULL,
    tag TEXT NOT NULL,
    position INTEGER NOT NULL,
    PRIMARY KEY (space, memory_id, tag),
    FOREIGN KEY (space, memory_id) REFERENCES memories (space, id) ON DELETE CASCADE
);
CREATE INDEX idx_tags ON memory_tags (space, tag, memory_id);

-- Vocabularies: every version of a space's lists. The newest is current.
CREATE TABLE vocabularies (
    space TEXT NOT NULL,
    version TEXT NOT NULL,
    terms_json TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (space, version)
);
CREATE INDEX vocabularies_created ON vocabularies (space, created_at);

-- The lexicon: a term and another name for it.
CREATE TABLE lexicon (
    space TEXT NOT NULL,
    term_key TEXT NOT NULL,  -- normalised: NFKC, case, spaces
    alias_key TEXT NOT NULL,
    term TEXT NOT NULL,
    alias TEXT NOT NULL,
    position INTEGER NOT NULL,
    PRIMARY KEY (space, term_key, alias_key)
);
CREATE INDEX lexicon_alias ON lexicon (space, alias_key);
