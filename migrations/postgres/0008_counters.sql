-- Counters that processes share: writes to a space's chunks, calls in a time window.
CREATE TABLE counters (
    space VARCHAR(64) NOT NULL,
    name VARCHAR(64) NOT NULL,
    window_start BIGINT NOT NULL,  -- 0 where time does not matter
    value BIGINT NOT NULL,
    PRIMARY KEY (space, name, window_start)
);
