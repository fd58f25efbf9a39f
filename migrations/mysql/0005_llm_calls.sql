-- Every model call: its answer, duration and cost. Never the prompt.
-- Payers are of several kinds, so there is no foreign key: the store deletes both together.
CREATE TABLE IF NOT EXISTS llm_calls (
    id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    space VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    call_id VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    payer_kind VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,  -- job, query, context, prompt_run or request
    payer_id VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin,  -- none for a request
    seq BIGINT NOT NULL,
    stage VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    level BIGINT,
    attempt BIGINT NOT NULL,
    outcome VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    provider VARCHAR(100) NOT NULL,
    model VARCHAR(200) NOT NULL,
    mode VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    params_json LONGTEXT NOT NULL,
    output_json LONGTEXT,
    latency_ms DOUBLE NOT NULL,
    tokens_prompt BIGINT NOT NULL,
    tokens_completion BIGINT NOT NULL,
    tokens_cached BIGINT NOT NULL,
    cost_usd DOUBLE,
    started_at BIGINT NOT NULL,
    UNIQUE KEY llm_calls_call (space, call_id),
    UNIQUE KEY llm_calls_payer (space, payer_kind, payer_id, seq)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Model usage per day. Kept when jobs are pruned, and counted even if call records are not stored.
CREATE TABLE IF NOT EXISTS usage_days (
    space VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    day VARCHAR(10) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    stage VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    provider VARCHAR(100) NOT NULL,
    model VARCHAR(200) NOT NULL,
    calls BIGINT NOT NULL,
    tokens_prompt BIGINT NOT NULL,
    tokens_completion BIGINT NOT NULL,
    tokens_cached BIGINT NOT NULL,
    cost_usd DOUBLE NOT NULL,
    PRIMARY KEY (space, day, stage, provider, model)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
