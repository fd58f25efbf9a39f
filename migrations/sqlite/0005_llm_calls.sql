-- Every model call: its answer, duration and cost. Never the prompt.
CREATE TABLE llm_calls (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    space TEXT NOT NULL,
    call_id TEXT NOT NULL,
    job_id TEXT,
    query_id TEXT,
    batch_seq INTEGER,
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
    started_at INTEGER NOT NULL,
    FOREIGN KEY (space, job_id) REFERENCES jobs (space, id) ON DELETE CASCADE
);
CREATE UNIQUE INDEX llm_calls_call ON llm_calls (space, call_id);
CREATE UNIQUE INDEX llm_calls_job ON llm_calls (space, job_id, seq);
CREATE UNIQUE INDEX llm_calls_query ON llm_calls (space, query_id, seq);
CREATE INDEX llm_calls_started ON llm_calls (space, started_at);
