-- API keys created over the API, without those of the configuration. Stores only the hash of a key, never the key.
CREATE TABLE api_keys (
    space VARCHAR(64) NOT NULL,  -- the space that it opens; * for all
    id VARCHAR(36) NOT NULL,
    name VARCHAR(100) NOT NULL,
    key_sha256 VARCHAR(64) NOT NULL,
    prefix VARCHAR(16) NOT NULL,  -- its first characters, to recognise it
    role VARCHAR(16) NOT NULL,
    limits_json TEXT NOT NULL,
    expires_at BIGINT,
    created_at BIGINT NOT NULL,
    revoked_at BIGINT,
    last_used_at BIGINT,  -- accurate to a few minutes
    PRIMARY KEY (space, id)
);
-- Spans spaces: a request names a key, and the key determines the space.
CREATE UNIQUE INDEX api_keys_sha256 ON api_keys (key_sha256);

-- Model spending of each key per day, including keys of the configuration. Spans spaces: a key may open all of them.
CREATE TABLE key_days (
    key_id VARCHAR(36) NOT NULL,
    day VARCHAR(10) NOT NULL,
    calls BIGINT NOT NULL,
    tokens BIGINT NOT NULL,
    cost_usd DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (key_id, day)
);
