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
