-- Background jobs. Claiming, rescuing and pruning span spaces, so their indexes do not start with space.
CREATE TABLE IF NOT EXISTS jobs (
    space VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    id VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    kind VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    state VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    phase VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin,
    user_id VARCHAR(128) NOT NULL,
    source_id VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin,  -- no foreign key, because the source may be written only when the job ends
    source_seq BIGINT NOT NULL,  -- the order of the jobs for one source, counted by the database; 0 without a source
    progress_json LONGTEXT,
    result_json LONGTEXT,
    error_json LONGTEXT,
    warnings_json LONGTEXT,
    attempt BIGINT NOT NULL,
    max_attempts BIGINT NOT NULL,
    losses BIGINT NOT NULL,  -- processes that died or froze while running it, since it last saved a step
    turn BIGINT NOT NULL,  -- position in the queue; spaces take turns, see store/jobs.rs
    group_size SMALLINT NOT NULL,  -- how many jobs like this one a worker runs at once
    run_after BIGINT NOT NULL,  -- by the database's clock, like lease_until
    waiting_since BIGINT,  -- start of the current wait for a provider, by the database's clock
    waits BIGINT NOT NULL DEFAULT 0,  -- number of waits since then
    lease_owner VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin,
    lease_until BIGINT,
    fence BIGINT NOT NULL,  -- grows with every claim; a write with an older fence affects no row
    created_at BIGINT NOT NULL,
    started_at BIGINT,
    finished_at BIGINT,
    log_json LONGTEXT,  -- of a job that has succeeded: what is not in job_events, job_batches and llm_calls; see store/job_log.rs
    PRIMARY KEY (space, id),
    KEY jobs_claim (state, turn, id),
    KEY jobs_owner (lease_owner),
    KEY jobs_lease (lease_until),
    KEY jobs_finished (finished_at),
    KEY jobs_turn (space, state, turn),
    KEY jobs_source (space, source_id, source_seq),
    KEY jobs_created (space, created_at, id)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- The request of a job, which may be a long text. It has its own table, because SQLite rewrites a row with every change.
CREATE TABLE IF NOT EXISTS job_requests (
    space VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    job_id VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    request_json LONGTEXT NOT NULL,
    budget_json LONGTEXT,  -- the API key whose daily caps count its calls
    PRIMARY KEY (space, job_id),
    FOREIGN KEY (space, job_id) REFERENCES jobs (space, id) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Finished steps and model answers, from which a job resumes.
CREATE TABLE IF NOT EXISTS job_checkpoints (
    space VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    job_id VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    step VARCHAR(200) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    value_json LONGTEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (space, job_id, step),
    FOREIGN KEY (space, job_id) REFERENCES jobs (space, id) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- The events of a job, in order; every process streams them from here.
CREATE TABLE IF NOT EXISTS job_events (
    space VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    job_id VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    seq BIGINT NOT NULL,
    kind VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    data_json LONGTEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (space, job_id, seq),
    FOREIGN KEY (space, job_id) REFERENCES jobs (space, id) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- The log of each classification call.
CREATE TABLE IF NOT EXISTS job_batches (
    space VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    job_id VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    seq BIGINT NOT NULL,
    level BIGINT NOT NULL,
    parent_path LONGTEXT NOT NULL,
    chunk_ordinals_json LONGTEXT NOT NULL,
    chunks_sent BIGINT NOT NULL,
    successes BIGINT NOT NULL,
    retries BIGINT NOT NULL,
    failures BIGINT NOT NULL,
    latency_ms DOUBLE NOT NULL,
    started_at BIGINT NOT NULL,
    paid_by VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin,  -- the job that the call is recorded with, if it is another one
    FOREIGN KEY (space, job_id) REFERENCES jobs (space, id) ON DELETE CASCADE,
    UNIQUE KEY job_batches_seq (space, job_id, seq)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
