-- The record of each attempt that was not a run's first and successful one.
CREATE TABLE attempt (
  due       INTEGER NOT NULL,
  job       INTEGER NOT NULL,
  number    INTEGER NOT NULL,
  namespace TEXT    NOT NULL,
  worker    TEXT,
  claimed   INTEGER NOT NULL,
  started   INTEGER NOT NULL,
  ended     INTEGER NOT NULL,
  outcome   INTEGER NOT NULL,
  reason    TEXT,
  exit      INTEGER NOT NULL,
  status    INTEGER NOT NULL,
  PRIMARY KEY (due, job, number)
) WITHOUT ROWID;
