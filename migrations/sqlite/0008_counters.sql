-- Counters that processes share: writes to a space's chunks, calls in a time window.
CREATE TABLE counters (
    space TEXT NOT NULL,
    name TEXT NOT NULL,
    window_start INTEGER NOT NULL,  -- 0 where time does not matter
    value INTEGER NOT NULL,
    PRIMARY KEY (space, name, window_start)
);
