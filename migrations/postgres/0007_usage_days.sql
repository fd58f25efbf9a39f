-- Model usage per day. Kept when jobs are pruned, and counted even if call records are not stored.
CREATE TABLE usage_days (
    space VARCHAR(64) NOT NULL,
    day VARCHAR(10) NOT NULL,
    stage VARCHAR(32) NOT NULL,
    provider VARCHAR(100) NOT NULL,
    model VARCHAR(200) NOT NULL,
    calls BIGINT NOT NULL,
    tokens_prompt BIGINT NOT NULL,
    tokens_completion BIGINT NOT NULL,
    tokens_cached BIGINT NOT NULL,
    cost_usd DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (space, day, stage, provider, model)
);
