-- Policies: every version of the settings by which memories are selected. The newest is current.
CREATE TABLE policies (
    space VARCHAR(64) NOT NULL,
    name VARCHAR(64) NOT NULL,
    version BIGINT NOT NULL,
    kind VARCHAR(64) NOT NULL,  -- retrieval
    body_json TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (space, name, version)
);
