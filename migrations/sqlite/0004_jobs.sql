-- Background jobs. Claiming, rescuing and pruning span spaces, so their indexes do not start with space.
CREATE TABLE jobs (
    space TEXT NOT NULL,
    id TEXT NOT NULL,
    kind TEXT NOT NULL,
    state TEXT NOT NULL,
    phase TEXT,
    user_id TEXT NOT NULL,
    source_id TEXT,  -- no foreign key, because the source may be written only when the job ends
    source_seq INTEGER NOT NULL,  -- the order of the jobs for one source, counted by the database; 0 without a source
    progress_json TEXT,
    result_json TEXT,
    error_json TEXT,
    warnings_json TEXT,
    attempt INTEGER NOT NULL,
    max_attempts INTEGER NOT NULL,
    losses INTEGER NOT NULL,  -- processes that died or froze while running it, since it last saved a step
    turn INTEGER NOT NULL,  -- position in the queue; spaces take turns, see store/jobs.rs
    group_size INTEGER NOT NULL,  -- how many jobs like this one a worker runs at once
    run_after INTEGER NOT NULL,  -- by the database's clock, like lease_until
    waiting_since INTEGER,  -- start of the current wait for a provider, by the database's clock
    waits INTEGER NOT NULL DEFAULT 0,  -- number of waits since then
    lease_owner TEXT,
    lease_until INTEGER,
    fence INTEGER NOT NULL,  -- grows with every claim; a write with an older fence affects no row
    created_at INTEGER NOT NULL,
    started_at INTEGER,
    finished_at INTEGER,
    log_json TEXT,  -- of a job that has succeeded: what is not in job_events, job_batches and llm_calls; see store/job_log.rs
    PRIMARY KEY (space, id)
);
-- Most jobs have ended, and a partial index does not contain them.
CREATE INDEX jobs_claim ON jobs (state, turn, id) WHERE finished_at IS NULL;
CREATE INDEX jobs_owner ON jobs (lease_owner) WHERE lease_owner IS NOT NULL;
CREATE INDEX jobs_lease ON jobs (lease_until) WHERE lease_until IS NOT NULL;
CREATE INDEX jobs_finished ON jobs (finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX jobs_turn ON jobs (space, state, turn);
CREATE INDEX jobs_source ON jobs (space, source_id, source_seq);
CREATE INDEX jobs_created ON jobs (space, created_at, id);

-- The request of a job, which may be a long text. It has its own table, because SQLite rewrites a row with every change.
CREATE TABLE job_requests (
    space TEXT NOT NULL,
    job_id TEXT NOT NULL,
    request_json TEXT NOT NULL,
    budget_json TEXT,  -- the API key whose daily caps count its calls
    PRIMARY KEY (space, job_id),
    FOREIGN KEY (space, job_id) REFERENCES jobs (space, id) ON DELETE CASCADE
);

-- Finished steps and model answers, from which a job resumes.
CREATE TABLE job_checkpoints (
    space TEXT NOT NULL,
    job_id TEXT NOT NULL,
    step TEXT NOT NULL,
    value_json TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (space, job_id, step),
    FOREIGN KEY (space, job_id) REFERENCES jobs (space, id) ON DELETE CASCADE
) WITHOUT ROWID;

-- The events of a job, in order; every process streams them from here.
CREATE TABLE job_events (
    space TEXT NOT NULL,
    job_id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    kind TEXT NOT NULL,
    data_json TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (space, job_id, seq),
    FOREIGN KEY (space, job_id) REFERENCES jobs (space, id) ON DELETE CASCADE
) WITHOUT ROWID;

-- The log of each classification call.
CREATE TABLE job_batches (
    space TEXT NOT NULL,
    job_id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    level INTEGER NOT NULL,
    parent_path TEXT NOT NULL,
    chunk_ordinals_json TEXT NOT NULL,
    chunks_sent INTEGER NOT NULL,
    successes INTEGER NOT NULL,
    retries INTEGER NOT NULL,
    failures INTEGER NOT NULL,
    latency_ms REAL NOT NULL,
    started_at INTEGER NOT NULL,
    paid_by TEXT,  -- the job that the call is recorded with, if it is another one
    PRIMARY KEY (space, job_id, seq),
    FOREIGN KEY (space, job_id) REFERENCES jobs (space, id) ON DELETE CASCADE
) WITHOUT ROWID;
