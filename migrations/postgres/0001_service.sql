-- Settings that belong to the data and not to the process, such as the depth of a space's hierarchy.
CREATE TABLE settings (
    space VARCHAR(64) NOT NULL,
    name VARCHAR(100) NOT NULL,
    value_json TEXT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (space, name)
);

-- Written and emptied by the readiness check, to test whether the disk has space.
CREATE TABLE write_probes (
    id VARCHAR(36) NOT NULL,
    filler TEXT NOT NULL,
    PRIMARY KEY (id)
);

-- Counts that several processes share: writes to a space's chunks and to groups of other search entries, calls in a window of time.
CREATE TABLE counters (
    space VARCHAR(64) NOT NULL,
    name VARCHAR(64) NOT NULL,
    window_start BIGINT NOT NULL,  -- 0 where time does not matter
    value BIGINT NOT NULL,
    PRIMARY KEY (space, name, window_start)
);

-- The first response to each Idempotency-Key, kept for 24 hours. Pruning spans spaces.
CREATE TABLE idempotency_keys (
    space VARCHAR(64) NOT NULL,
    idempotency_key VARCHAR(255) NOT NULL,
    route VARCHAR(100) NOT NULL,
    body_hash VARCHAR(64) NOT NULL,
    status BIGINT,  -- NULL until the response is known
    response_json TEXT,
    created_at BIGINT NOT NULL,
    lease_owner VARCHAR(36),  -- the request that runs outside a transaction and holds the key
    lease_until BIGINT,  -- by the database's clock; afterwards another request may take over
    PRIMARY KEY (space, idempotency_key)
);
CREATE INDEX idempotency_keys_created ON idempotency_keys (created_at);
