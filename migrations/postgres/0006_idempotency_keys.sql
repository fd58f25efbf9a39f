-- The first answer to each Idempotency-Key, kept for 24 hours. Pruning spans spaces.
CREATE TABLE idempotency_keys (
    space VARCHAR(64) NOT NULL,
    idempotency_key VARCHAR(255) NOT NULL,
    route VARCHAR(100) NOT NULL,
    body_hash VARCHAR(64) NOT NULL,
    status BIGINT,  -- empty until the answer is known
    response_json TEXT,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (space, idempotency_key)
);
CREATE INDEX idempotency_keys_created ON idempotency_keys (created_at);
