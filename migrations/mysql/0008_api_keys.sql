-- API keys created over the API, without those of the configuration. Stores only the hash of a key, never the key.
CREATE TABLE IF NOT EXISTS api_keys (
    space VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,  -- the space that it opens; * for all
    id VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    name VARCHAR(100) NOT NULL,
    key_sha256 VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    prefix VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,  -- its first characters, to recognise it
    role VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    limits_json LONGTEXT NOT NULL,
    expires_at BIGINT,
    created_at BIGINT NOT NULL,
    revoked_at BIGINT,
    last_used_at BIGINT,  -- accurate to a few minutes
    PRIMARY KEY (space, id),
    -- Spans spaces: a request names a key, and the key determines the space.
    UNIQUE KEY api_keys_sha256 (key_sha256)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Model spending of each key per day, including keys of the configuration. Spans spaces: a key may open all of them.
CREATE TABLE IF NOT EXISTS key_days (
    key_id VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    day VARCHAR(10) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    calls BIGINT NOT NULL,
    tokens BIGINT NOT NULL,
    cost_usd DOUBLE NOT NULL,
    PRIMARY KEY (key_id, day)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
