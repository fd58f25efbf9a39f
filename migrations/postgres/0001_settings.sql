-- Settings that belong to the data and not to the process, such as the depth of a space's hierarchy.
CREATE TABLE settings (
    space VARCHAR(64) NOT NULL,
    name VARCHAR(100) NOT NULL,
    value_json TEXT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (space, name)
);

-- Written and emptied by the readiness check, to test whether the disk has space.
CREATE TABLE write_probes (
    id VARCHAR(36) NOT NULL,
    filler TEXT NOT NULL,
    PRIMARY KEY (id)
);
