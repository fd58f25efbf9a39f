-- Background jobs. Claiming, rescuing and pruning span spaces, so their indexes do not start with space.
CREATE TABLE jobs (
    space VARCHAR(64) NOT NULL,
    id VARCHAR(36) NOT NULL,
    kind VARCHAR(32) NOT NULL,
    state VARCHAR(16) NOT NULL,
    phase VARCHAR(32),
    user_id VARCHAR(128) NOT NULL,
    source_id VARCHAR(36),  -- no foreign key, because the source may be written only when the job ends
    source_seq BIGINT NOT NULL,  -- the order of the jobs for one source, counted by the database; 0 without a source
    progress_json TEXT,
    result_json TEXT,
    error_json TEXT,
    warnings_json TEXT,
    attempt BIGINT NOT NULL,
    max_attempts BIGINT NOT NULL,
    losses BIGINT NOT NULL,  -- processes that died or froze while running it, since it last saved a step
    turn BIGINT NOT NULL,  -- position in the queue; spaces take turns, see store/jobs.rs
    group_size SMALLINT NOT NULL,  -- how many jobs like this one a worker runs at once
    run_after BIGINT NOT NULL,  -- by the database's clock, like lease_until
    waiting_since BIGINT,  -- start of the current wait for a provider, by the database's clock
    waits BIGINT NOT NULL DEFAULT 0,  -- number of waits since then
    lease_owner VARCHAR(64),
    lease_until BIGINT,
    fence BIGINT NOT NULL,  -- grows with every claim; a write with an older fence affects no row
    created_at BIGINT NOT NULL,
    started_at BIGINT,
    finished_at BIGINT,
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
    space VARCHAR(64) NOT NULL,
    job_id VARCHAR(36) NOT NULL,
    request_json TEXT NOT NULL,
    budget_json TEXT,  -- the API key whose daily caps count its calls
    PRIMARY KEY (space, job_id),
    FOREIGN KEY (space, job_id) REFERENCES jobs (space, id) ON DELETE CASCADE
);

-- Finished steps and model answers, from which a job resumes.
CREATE TABLE job_checkpoints (
    space VARCHAR(64) NOT NULL,
    job_id VARCHAR(36) NOT NULL,
    step VARCHAR(200) NOT NULL,
    value_json TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (space, job_id, step),
    FOREIGN KEY (space, job_id) REFERENCES jobs (space, id) ON DELETE CASCADE
);

-- The events of a job, in order; every process streams them from here.
CREATE TABLE job_events (
    space VARCHAR(64) NOT NULL,
    job_id VARCHAR(36) NOT NULL,
    seq BIGINT NOT NULL,
    kind VARCHAR(32) NOT NULL,
    data_json TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (space, job_id, seq),
    FOREIGN KEY (space, job_id) REFERENCES jobs (space, id) ON DELETE CASCADE
);

-- The log of each classification call.
CREATE TABLE job_batches (
    space VARCHAR(64) NOT NULL,
    job_id VARCHAR(36) NOT NULL,
    seq BIGINT NOT NULL,
    level BIGINT NOT NULL,
    parent_path TEXT NOT NULL,
    chunk_ordinals_json TEXT NOT NULL,
    chunks_sent BIGINT NOT NULL,
    successes BIGINT NOT NULL,
    retries BIGINT NOT NULL,
    failures BIGINT NOT NULL,
    latency_ms DOUBLE PRECISION NOT NULL,
    started_at BIGINT NOT NULL,
    paid_by VARCHAR(36),  -- the job that the call is recorded with, if it is another one
    PRIMARY KEY (space, job_id, seq),
    FOREIGN KEY (space, job_id) REFERENCES jobs (space, id) ON DELETE CASCADE
);
