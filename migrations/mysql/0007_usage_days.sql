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
