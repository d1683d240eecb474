-- The payload of a run that was requested with its own payload, in place of its job's.
CREATE TABLE run_payload (
  due   INTEGER NOT NULL,
  job   INTEGER NOT NULL,
  ns    TEXT    NOT NULL,
  value BLOB    NOT NULL,
  PRIMARY KEY (due, job)
) WITHOUT ROWID;
