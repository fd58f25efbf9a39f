-- Conversations: threads and what is kept from them or about a user.
CREATE TABLE IF NOT EXISTS threads (
    space VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    id VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    user_id VARCHAR(128) NOT NULL,  -- the end user inside the space
    title VARCHAR(300),
    message_count BIGINT NOT NULL,
    turn_count BIGINT NOT NULL,  -- a turn begins with a message of the user
    created_at BIGINT NOT NULL,  -- all times are microseconds UTC
    updated_at BIGINT NOT NULL,
    last_message_at BIGINT NOT NULL,  -- 0 if there is no message
    PRIMARY KEY (space, id),
    KEY threads_user (space, user_id, created_at, id),
    KEY threads_newest (space, created_at, id),
    KEY threads_active (space, last_message_at, id)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Messages, facts, preferences and summaries. Texts are never changed; only what is said about them.
CREATE TABLE IF NOT EXISTS memories (
    seq BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    space VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    id VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    user_id VARCHAR(128) NOT NULL,
    thread_id VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin,
    type VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,  -- message, fact, preference or summary
    role VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,  -- user, assistant or system
    title VARCHAR(300),
    content_hash VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    source VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,  -- chat, external, client or model
    file_path LONGTEXT,
    file_sha256 VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin,
    file_mtime BIGINT,
    turn_index BIGINT NOT NULL,  -- 0 outside a thread
    category VARCHAR(100),
    message_type VARCHAR(100),
    own_importance DOUBLE,  -- as classified or given
    importance DOUBLE,  -- the same, raised by its uses and its mark
    important SMALLINT NOT NULL,  -- 0 or 1
    pinned SMALLINT NOT NULL,  -- 0 or 1
    confidence VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin,
    suggested_topic VARCHAR(100),
    suggested_category VARCHAR(100),
    has_topics SMALLINT NOT NULL,  -- 0 or 1
    tier VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,  -- long_term, or by_age
    access_count BIGINT NOT NULL,
    vocabulary_version VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin,
    enrichment_model VARCHAR(300),
    enrichment_state VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,  -- pending, done, failed or none
    enrichment_job VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin,
    enrichment_begun SMALLINT NOT NULL,  -- 1: a model was asked about it by that job
    superseded_by VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin,
    superseded_at BIGINT,
    created_at BIGINT NOT NULL,
    stored_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    last_access_at BIGINT,
    labels_json LONGTEXT NOT NULL,  -- topics, entities and tags, also in the tables below
    evidence_json LONGTEXT,  -- the messages that it rests on
    -- Last, so that SQLite can read the other columns without reading through the text.
    content LONGTEXT NOT NULL,
    FOREIGN KEY (space, thread_id) REFERENCES threads (space, id) ON DELETE CASCADE,
    UNIQUE KEY memories_id (space, id),
    KEY idx_user_time (space, user_id, created_at DESC),
    KEY idx_user_thread_time (space, user_id, thread_id, created_at DESC),
    KEY idx_thread_turn (space, thread_id, turn_index),
    KEY idx_category (space, user_id, category),
    KEY idx_tier_importance (space, user_id, tier, importance DESC),
    KEY idx_low_confidence (space, confidence, suggested_topic),
    KEY idx_user_topics_time (space, user_id, has_topics, created_at DESC),
    KEY idx_content_hash (space, user_id, content_hash),
    KEY idx_enrichment_state (space, enrichment_state, seq),
    KEY idx_enrichment_job (space, enrichment_job)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS memory_topics (
    space VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    memory_id VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    topic VARCHAR(100) NOT NULL,
    position BIGINT NOT NULL,
    PRIMARY KEY (space, memory_id, topic),
    FOREIGN KEY (space, memory_id) REFERENCES memories (space, id) ON DELETE CASCADE,
    KEY idx_topics (space, topic, memory_id)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS memory_entities (
    space VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    memory_id VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    position BIGINT NOT NULL,
    type VARCHAR(100) NOT NULL,
    value VARCHAR(300) NOT NULL,
    PRIMARY KEY (space, memory_id, position),
    FOREIGN KEY (space, memory_id) REFERENCES memories (space, id) ON DELETE CASCADE,
    KEY idx_entities (space, value, memory_id)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS memory_tags (
    space VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    memory_id VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    tag VARCHAR(100) NOT NULL,
    position BIGINT NOT NULL,
    PRIMARY KEY (space, memory_id, tag),
    FOREIGN KEY (space, memory_id) REFERENCES memories (space, id) ON DELETE CASCADE,
    KEY idx_tags (space, tag, memory_id)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Vocabularies: every version of a space's lists. The newest is current.
CREATE TABLE IF NOT EXISTS vocabularies (
    space VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    version VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    terms_json LONGTEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (space, version),
    KEY vocabularies_created (space, created_at)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- The lexicon: a term and another name for it.
CREATE TABLE IF NOT EXISTS lexicon (
    space VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    term_key VARCHAR(100) NOT NULL,  -- normalised: NFKC, case, spaces
    alias_key VARCHAR(100) NOT NULL,
    term VARCHAR(100) NOT NULL,
    alias VARCHAR(100) NOT NULL,
    position BIGINT NOT NULL,
    PRIMARY KEY (space, term_key, alias_key),
    KEY lexicon_alias (space, alias_key)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
