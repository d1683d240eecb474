-- Columns are called what their values are called in Go, in JSON and on the command line. No row is
-- rewritten.
ALTER TABLE job         RENAME COLUMN ns TO namespace;
ALTER TABLE definition  RENAME COLUMN ns TO namespace;
ALTER TABLE job_label   RENAME COLUMN ns TO namespace;
ALTER TABLE run         RENAME COLUMN ns TO namespace;
ALTER TABLE run         RENAME COLUMN prio TO priority;
ALTER TABLE history     RENAME COLUMN ns TO namespace;
ALTER TABLE history     RENAME COLUMN prio TO priority;
ALTER TABLE history     RENAME COLUMN pos TO place;
ALTER TABLE dead        RENAME COLUMN ns TO namespace;
ALTER TABLE dead        RENAME COLUMN prio TO priority;
ALTER TABLE dead        RENAME COLUMN pos TO place;
ALTER TABLE result      RENAME COLUMN ns TO namespace;
ALTER TABLE checkpoint  RENAME COLUMN ns TO namespace;
ALTER TABLE run_payload RENAME COLUMN ns TO namespace;
ALTER TABLE guard       RENAME COLUMN ns TO namespace;
