-- Model usage per day. Kept when jobs are pruned, and counted even if call records are not stored.
CREATE TABLE usage_days (
    space TEXT NOT NULL,
    day TEXT NOT NULL,
    stage TEXT NOT NULL,
    provider TEXT NOT NULL,
    model TEXT NOT NULL,
    calls INTEGER NOT NULL,
    tokens_prompt INTEGER NOT NULL,
    tokens_completion INTEGER NOT NULL,
    tokens_cached INTEGER NOT NULL,
    cost_usd REAL NOT NULL,
    PRIMARY KEY (space, day, stage, provider, model)
);
