-- New rows go to the end of the busy tables, because ids rise with time. The key (due, job) is the name of a
-- run and also the index of due times. Times are milliseconds since 1970; 0 or NULL means none. States and
-- flags are the numbers of package carillon.

CREATE TABLE job (
  id      INTEGER PRIMARY KEY,
  ns      TEXT    NOT NULL,
  rev     INTEGER NOT NULL,
  version INTEGER NOT NULL,           -- of the definition: name, type, owner, spec, payload
  state   INTEGER NOT NULL,
  created INTEGER NOT NULL,
  updated INTEGER NOT NULL,
  due     INTEGER,                    -- of a one-off: when its first run was due, to find that run by key
  name    TEXT    NOT NULL,
  type    TEXT    NOT NULL,
  owner   TEXT    NOT NULL,
  spec    TEXT,                       -- unusual parts of the definition, JSON (sqlcommon/spec.go), or NULL
  payload BLOB
);

-- Older versions of definitions, moved here by the change that replaced them.
CREATE TABLE definition (
  job     INTEGER NOT NULL,
  version INTEGER NOT NULL,
  ns      TEXT    NOT NULL,
  name    TEXT    NOT NULL,
  type    TEXT    NOT NULL,
  owner   TEXT    NOT NULL,
  spec    TEXT,
  payload BLOB,
  UNIQUE (job, version)
);

CREATE TABLE job_label (
  ns    TEXT    NOT NULL,
  key   TEXT    NOT NULL,
  value TEXT    NOT NULL,
  job   INTEGER NOT NULL,
  PRIMARY KEY (ns, key, value, job)
) WITHOUT ROWID;

-- Unfinished runs.
CREATE TABLE run (
  due      INTEGER NOT NULL,
  job      INTEGER NOT NULL,
  wake     INTEGER NOT NULL,
  covers   INTEGER NOT NULL,
  claimed  INTEGER NOT NULL,
  started  INTEGER NOT NULL,
  retry_of INTEGER NOT NULL,
  rev      INTEGER NOT NULL,
  version  INTEGER NOT NULL,
  seq      INTEGER NOT NULL,
  attempt  INTEGER NOT NULL,
  failures INTEGER NOT NULL,
  losses   INTEGER NOT NULL,
  crashes  INTEGER NOT NULL,
  state    INTEGER NOT NULL,
  prio     INTEGER NOT NULL,
  flags    INTEGER NOT NULL,           -- without Extra
  extra    INTEGER NOT NULL,           -- 1: not the one run of a one-off job, whose due is in the job row
  ns       TEXT    NOT NULL,
  queue    TEXT    NOT NULL,
  worker   TEXT,
  reason   TEXT,
  PRIMARY KEY (due, job)
) WITHOUT ROWID;
CREATE INDEX run_wake ON run (wake, due, job) WHERE wake <> due; -- only retries, held and blocked runs
CREATE INDEX run_job  ON run (job) WHERE extra = 1;              -- a one-off costs nothing here

-- Ended runs in the order in which they ended.
CREATE TABLE history (
  pos      INTEGER PRIMARY KEY,
  ns       TEXT    NOT NULL,
  job      INTEGER NOT NULL,
  due      INTEGER NOT NULL,
  covers   INTEGER NOT NULL,
  until    INTEGER NOT NULL,
  claimed  INTEGER NOT NULL,
  started  INTEGER NOT NULL,
  ended    INTEGER NOT NULL,
  expires  INTEGER,                    -- NULL: by the server's rule
  retry_of INTEGER NOT NULL,
  version  INTEGER NOT NULL,
  seq      INTEGER NOT NULL,
  attempt  INTEGER NOT NULL,
  failures INTEGER NOT NULL,
  losses   INTEGER NOT NULL,
  crashes  INTEGER NOT NULL,
  state    INTEGER NOT NULL,
  prio     INTEGER NOT NULL,
  queue    TEXT    NOT NULL,
  name     TEXT    NOT NULL,
  type     TEXT    NOT NULL,
  owner    TEXT    NOT NULL,
  worker   TEXT,
  reason   TEXT
);
CREATE INDEX history_job     ON history (job, due);
CREATE INDEX history_bad     ON history (state) WHERE state <> 4; -- and pos; a success costs nothing here
CREATE INDEX history_expires ON history (expires) WHERE expires IS NOT NULL;

-- Runs that failed for good, until they are retried or expire.
CREATE TABLE dead (
  pos      INTEGER PRIMARY KEY,
  ns       TEXT    NOT NULL,
  job      INTEGER NOT NULL,
  due      INTEGER NOT NULL,
  covers   INTEGER NOT NULL,
  until    INTEGER NOT NULL,
  claimed  INTEGER NOT NULL,
  started  INTEGER NOT NULL,
  ended    INTEGER NOT NULL,
  expires  INTEGER,
  retry_of INTEGER NOT NULL,
  version  INTEGER NOT NULL,
  seq      INTEGER NOT NULL,
  attempt  INTEGER NOT NULL,
  failures INTEGER NOT NULL,
  losses   INTEGER NOT NULL,
  crashes  INTEGER NOT NULL,
  state    INTEGER NOT NULL,
  prio     INTEGER NOT NULL,
  queue    TEXT    NOT NULL,
  name     TEXT    NOT NULL,
  type     TEXT    NOT NULL,
  owner    TEXT    NOT NULL,
  worker   TEXT,
  reason   TEXT
);
CREATE UNIQUE INDEX dead_run ON dead (job, due);
CREATE INDEX dead_expires    ON dead (expires) WHERE expires IS NOT NULL;
CREATE INDEX dead_ended      ON dead (ended) WHERE expires IS NULL;

-- The output of runs. Most runs have neither a result nor a checkpoint.
CREATE TABLE result (
  due   INTEGER NOT NULL,
  job   INTEGER NOT NULL,
  ns    TEXT    NOT NULL,
  value BLOB    NOT NULL,
  PRIMARY KEY (due, job)
) WITHOUT ROWID;
CREATE TABLE checkpoint (
  due   INTEGER NOT NULL,
  job   INTEGER NOT NULL,
  ns    TEXT    NOT NULL,
  value BLOB    NOT NULL,
  PRIMARY KEY (due, job)
) WITHOUT ROWID;

CREATE TABLE guard (
  ns    TEXT    NOT NULL,
  key   TEXT    NOT NULL,
  rev   INTEGER NOT NULL,
  value BLOB    NOT NULL,
  PRIMARY KEY (ns, key)
) WITHOUT ROWID;
