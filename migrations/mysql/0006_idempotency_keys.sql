-- The first response to each Idempotency-Key, kept for 24 hours. Pruning spans spaces.
CREATE TABLE IF NOT EXISTS idempotency_keys (
    space VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    idempotency_key VARCHAR(255) NOT NULL,
    route VARCHAR(100) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    body_hash VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    status BIGINT,  -- NULL until the response is known
    response_json LONGTEXT,
    created_at BIGINT NOT NULL,
    lease_owner VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin,  -- the request that runs outside a transaction and holds the key
    lease_until BIGINT,  -- by the database's clock; afterwards another request may take over
    PRIMARY KEY (space, idempotency_key),
    KEY idempotency_keys_created (created_at)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
