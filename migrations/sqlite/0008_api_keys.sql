-- API keys that were made over the API; those of the configuration are not here. Never the key itself, only its hash.
CREATE TABLE api_keys (
    space TEXT NOT NULL,  -- the only space that it opens; * for all
    id TEXT NOT NULL,
    name TEXT NOT NULL,
    key_sha256 TEXT NOT NULL,
    prefix TEXT NOT NULL,  -- its first characters, to recognise it by
    role TEXT NOT NULL,
    limits_json TEXT NOT NULL,
    expires_at INTEGER,
    created_at INTEGER NOT NULL,
    revoked_at INTEGER,
    last_used_at INTEGER,  -- to some minutes
    PRIMARY KEY (space, id)
);
-- Spans spaces: a caller names a key, and the key names its space.
CREATE UNIQUE INDEX api_keys_sha256 ON api_keys (key_sha256);

-- What each key, also one of the configuration, spent on models on each day. Spans spaces: a key may open all of them.
CREATE TABLE key_days (
    key_id TEXT NOT NULL,
    day TEXT NOT NULL,
    calls INTEGER NOT NULL,
    tokens INTEGER NOT NULL,
    cost_usd REAL NOT NULL,
    PRIMARY KEY (key_id, day)
);
