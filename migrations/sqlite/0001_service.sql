-- Settings that belong to the data and not to the process, such as the depth of a space's hierarchy.
CREATE TABLE settings (
    space TEXT NOT NULL,
    name TEXT NOT NULL,
    value_json TEXT NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (space, name)
);

-- Written and emptied by the readiness check, to test whether the disk has space.
CREATE TABLE write_probes (
    id TEXT NOT NULL,
    filler TEXT NOT NULL,
    PRIMARY KEY (id)
);

-- Counts that several processes share: writes to a space's chunks and to groups of other search entries, calls in a window of time.
CREATE TABLE counters (
    space TEXT NOT NULL,
    name TEXT NOT NULL,
    window_start INTEGER NOT NULL,  -- 0 where time does not matter
    value INTEGER NOT NULL,
    PRIMARY KEY (space, name, window_start)
);

-- The first response to each Idempotency-Key, kept for 24 hours. Pruning spans spaces.
CREATE TABLE idempotency_keys (
    space TEXT NOT NULL,
    idempotency_key TEXT NOT NULL,
    route TEXT NOT NULL,
    body_hash TEXT NOT NULL,
    status INTEGER,  -- NULL until the response is known
    response_json TEXT,
    created_at INTEGER NOT NULL,
    lease_owner TEXT,  -- the request that runs outside a transaction and holds the key
    lease_until INTEGER,  -- by the database's clock; afterwards another request may take over
    PRIMARY KEY (space, idempotency_key)
);
CREATE INDEX idempotency_keys_created ON idempotency_keys (created_at);
