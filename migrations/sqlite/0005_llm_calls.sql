-- Every model call: its answer, duration and cost. Never the prompt.
-- Payers are of several kinds, so there is no foreign key: the store deletes both together.
CREATE TABLE llm_calls (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    space TEXT NOT NULL,
    call_id TEXT NOT NULL,
    payer_kind TEXT NOT NULL,  -- job, query, context, prompt_run or request
    payer_id TEXT,  -- none for a request
    seq INTEGER NOT NULL,
    stage TEXT NOT NULL,
    level INTEGER,
    attempt INTEGER NOT NULL,
    outcome TEXT NOT NULL,
    provider TEXT NOT NULL,
    model TEXT NOT NULL,
    mode TEXT NOT NULL,
    params_json TEXT NOT NULL,
    output_json TEXT,
    latency_ms REAL NOT NULL,
    tokens_prompt INTEGER NOT NULL,
    tokens_completion INTEGER NOT NULL,
    tokens_cached INTEGER NOT NULL,
    cost_usd REAL,
    started_at INTEGER NOT NULL
);
CREATE UNIQUE INDEX llm_calls_call ON llm_calls (space, call_id);
CREATE UNIQUE INDEX llm_calls_payer ON llm_calls (space, payer_kind, payer_id, seq);

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
