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
