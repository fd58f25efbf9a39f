-- API keys created over the API, without those of the configuration. Stores only the hash of a key, never the key.
CREATE TABLE api_keys (
    space TEXT NOT NULL,  -- the space that it opens; * for all
    id TEXT NOT NULL,
    name TEXT NOT NULL,
    key_sha256 TEXT NOT NULL,
    prefix TEXT NOT NULL,  -- its first characters, to recognise it
    role TEXT NOT NULL,
    limits_json TEXT NOT NULL,
    expires_at INTEGER,
    created_at INTEGER NOT NULL,
    revoked_at INTEGER,
    last_used_at INTEGER,  -- accurate to a few minutes
    PRIMARY KEY (space, id)
);
-- Spans spaces: a request names a key, and the key determines the space.
CREATE UNIQUE INDEX api_keys_sha256 ON api_keys (key_sha256);

-- Model spending of each key per day, including keys of the configuration. Spans spaces: a key may open all of them.
CREATE TABLE key_days (
    key_id TEXT NOT NULL,
    day TEXT NOT NULL,
    calls INTEGER NOT NULL,
    tokens INTEGER NOT NULL,
    cost_usd REAL NOT NULL,
    PRIMARY KEY (key_id, day)
);
