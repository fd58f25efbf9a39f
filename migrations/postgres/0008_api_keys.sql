-- API keys that were made over the API; those of the configuration are not here. Never the key itself, only its hash.
CREATE TABLE api_keys (
    space VARCHAR(64) NOT NULL,  -- the only space that it opens; * for all
    id VARCHAR(36) NOT NULL,
    name VARCHAR(100) NOT NULL,
    key_sha256 VARCHAR(64) NOT NULL,
    prefix VARCHAR(16) NOT NULL,  -- its first characters, to recognise it by
    role VARCHAR(16) NOT NULL,
    limits_json TEXT NOT NULL,
    expires_at BIGINT,
    created_at BIGINT NOT NULL,
    revoked_at BIGINT,
    last_used_at BIGINT,  -- to some minutes
    PRIMARY KEY (space, id)
);
-- Spans spaces: a caller names a key, and the key names its space.
CREATE UNIQUE INDEX api_keys_sha256 ON api_keys (key_sha256);

-- What each key, also one of the configuration, spent on models on each day. Spans spaces: a key may open all of them.
CREATE TABLE key_days (
    key_id VARCHAR(36) NOT NULL,
    day VARCHAR(10) NOT NULL,
    calls BIGINT NOT NULL,
    tokens BIGINT NOT NULL,
    cost_usd DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (key_id, day)
);
