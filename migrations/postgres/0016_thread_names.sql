-- The name that a client gives a thread, if it is no UUID; the id of such a thread is computed from it.
ALTER TABLE threads ADD COLUMN external_id VARCHAR(128);
