-- API keys that were made over the API; those of the configuration are not here. Never the key itself, only its hash.
CREATE TABLE IF NOT EXISTS api_keys (
    space VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,  -- the only space that it opens; * for all
    id VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    name VARCHAR(100) NOT NULL,
    key_sha256 VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    prefix VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,  -- its first characters, to recognise it by
    role VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    limits_json LONGTEXT NOT NULL,
    expires_at BIGINT,
    created_at BIGINT NOT NULL,
    revoked_at BIGINT,
    last_used_at BIGINT,  -- to some minutes
    PRIMARY KEY (space, id),
    -- Spans spaces: a caller names a key, and the key names its space.
    UNIQUE KEY api_keys_sha256 (key_sha256)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- What each key, also one of the configuration, spent on models on each day. Spans spaces: a key may open all of them.
CREATE TABLE IF NOT EXISTS key_days (
    key_id VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    day VARCHAR(10) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    calls BIGINT NOT NULL,
    tokens BIGINT NOT NULL,
    cost_usd DOUBLE NOT NULL,
    PRIMARY KEY (key_id, day)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
