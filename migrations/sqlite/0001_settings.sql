-- Values that belong to the data rather than to the process, such as the depth of a space's hierarchy.
CREATE TABLE settings (
    space TEXT NOT NULL,
    name TEXT NOT NULL,
    value_json TEXT NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (space, name)
);

-- Written and emptied again to see whether there is room.
CREATE TABLE write_probes (
    id TEXT NOT NULL,
    filler TEXT NOT NULL,
    PRIMARY KEY (id)
);
