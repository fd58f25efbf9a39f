-- Workspaces: every version of the rules and settings by which prompts are composed. The newest is current.
CREATE TABLE workspaces (
    space TEXT NOT NULL,
    version INTEGER NOT NULL,
    body_json TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (space, version)
);
