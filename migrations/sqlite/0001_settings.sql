-- Settings that belong to the data and not to the process, such as the depth of a space's hierarchy.
CREATE TABLE settings (
    space TEXT NOT NULL,
    name TEXT NOT NULL,
    value_json TEXT NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (space, name)
);

-- Written and emptied by the readiness check, to test whether the disk has space.
CREATE TABLE write_probes (
    id TEXT NOT NULL,
    filler TEXT NOT NULL,
    PRIMARY KEY (id)
);
