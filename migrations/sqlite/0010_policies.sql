-- Policies: every version of the settings by which memories are selected. The newest is current.
CREATE TABLE policies (
    space TEXT NOT NULL,
    name TEXT NOT NULL,
    version INTEGER NOT NULL,
    kind TEXT NOT NULL,  -- retrieval
    body_json TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (space, name, version)
);
