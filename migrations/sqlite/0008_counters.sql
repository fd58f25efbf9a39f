-- Counts that several processes share: writes to a space's chunks, calls in a window of time.
CREATE TABLE counters (
    space TEXT NOT NULL,
    name TEXT NOT NULL,
    window_start INTEGER NOT NULL,  -- 0 where time does not matter
    value INTEGER NOT NULL,
    PRIMARY KEY (space, name, window_start)
);
