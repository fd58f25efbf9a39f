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
