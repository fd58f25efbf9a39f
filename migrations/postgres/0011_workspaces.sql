-- Workspaces: every version of the rules and settings by which prompts are composed. The newest is current.
CREATE TABLE workspaces (
    space VARCHAR(64) NOT NULL,
    version BIGINT NOT NULL,
    body_json TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (space, version)
);
