-- Counters that processes share: writes to a space's chunks, calls in a time window.
CREATE TABLE IF NOT EXISTS counters (
    space VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    name VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    window_start BIGINT NOT NULL,  -- 0 where time does not matter
    value BIGINT NOT NULL,
    PRIMARY KEY (space, name, window_start)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
