-- Settings that belong to the data and not to the process, such as the depth of a space's hierarchy.
CREATE TABLE IF NOT EXISTS settings (
    space VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    name VARCHAR(100) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    value_json LONGTEXT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (space, name)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Written and emptied by the readiness check, to test whether the disk has space.
CREATE TABLE IF NOT EXISTS write_probes (
    id VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    filler LONGTEXT NOT NULL,
    PRIMARY KEY (id)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Counts that several processes share: writes to a space's chunks and to groups of other search entries, calls in a window of time.
CREATE TABLE IF NOT EXISTS counters (
    space VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    name VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    window_start BIGINT NOT NULL,  -- 0 where time does not matter
    value BIGINT NOT NULL,
    PRIMARY KEY (space, name, window_start)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

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
