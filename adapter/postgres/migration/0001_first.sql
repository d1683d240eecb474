-- New rows go to the end of the busy tables, because ids rise with time. The key (shard, due, job) is the
-- name of a run and also the index of due times. Times are milliseconds since 1970; 0 or NULL means none.
-- States and flags are the numbers of package carillon. Texts that are compared in order have the collation
-- "C", whatever the database's own collation is: all stores compare them byte by byte.

CREATE TABLE carillon.job (
  id      bigint   PRIMARY KEY,
  created bigint   NOT NULL,
  updated bigint   NOT NULL,
  -- of a one-off: when its first run was due, so that the run is found by its key
  due     bigint,
  rev     integer  NOT NULL,
  version integer  NOT NULL,          -- of the definition: name, type, owner, spec, payload
  state   smallint NOT NULL,
  ns      text     NOT NULL,
  name    text     NOT NULL,
  type    text     NOT NULL,
  owner   text     NOT NULL,
  -- JSON of the fields that differ from their defaults, see internal/sqlcommon/spec.go; NULL: none
  spec    bytea,
  -- JSON, byte for byte as the caller gave it; PostgreSQL would refuse some of it as a text
  payload bytea
);

-- Older versions of definitions, moved here by the change that replaced them.
CREATE TABLE carillon.definition (
  job     bigint  NOT NULL,
  version integer NOT NULL,
  ns      text    NOT NULL,
  name    text    NOT NULL,
  type    text    NOT NULL,
  owner   text    NOT NULL,
  spec    bytea,
  payload bytea,
  PRIMARY KEY (job, version)
);

CREATE TABLE carillon.job_label (
  job   bigint NOT NULL,
  ns    text   COLLATE "C" NOT NULL,
  key   text   COLLATE "C" NOT NULL,
  value text   COLLATE "C" NOT NULL,
  PRIMARY KEY (ns, key, value, job)
);
CREATE INDEX job_label_job ON carillon.job_label (job);

-- Unfinished runs. A page has room for a second version of each of its rows, so that a claim changes no
-- index. Autovacuum starts after a fixed number of dead rows, not after a share of the table: dead rows are
-- at the old end, which each read of due runs reads first.
CREATE TABLE carillon.run (
  due      bigint   NOT NULL,
  job      bigint   NOT NULL,
  wake     bigint   NOT NULL,
  covers   bigint   NOT NULL,
  claimed  bigint   NOT NULL,
  started  bigint   NOT NULL,
  retry_of bigint   NOT NULL,
  rev      integer  NOT NULL,
  version  integer  NOT NULL,
  seq      integer  NOT NULL,
  attempt  integer  NOT NULL,
  failures integer  NOT NULL,
  losses   integer  NOT NULL,
  crashes  integer  NOT NULL,
  shard    smallint NOT NULL,
  state    smallint NOT NULL,
  prio     smallint NOT NULL,
  flags    smallint NOT NULL,           -- without Extra
  extra    boolean  NOT NULL,           -- not the one run of a one-off job, whose due is in the job row
  ns       text     NOT NULL,
  queue    text     NOT NULL,
  worker   text     NOT NULL,
  reason   text     NOT NULL,
  PRIMARY KEY (shard, due, job)
) WITH (fillfactor = 45, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000,
  autovacuum_vacuum_cost_delay = 0);
-- runs that wake at another time than their due time: retries, held and blocked runs
CREATE INDEX run_wake ON carillon.run (shard, wake, due, job) WHERE wake <> due;
-- without runs of one-off jobs, which are found by their key
CREATE INDEX run_job  ON carillon.run (job) WHERE extra;

-- Ended runs. The place of a record is made of the millisecond of its commit and a number. It rises with
-- time, so a partition has the records of one day. Records of days without a partition are in history_rest.
CREATE SEQUENCE carillon.place;
CREATE TABLE carillon.history (
  pos      bigint   NOT NULL,
  job      bigint   NOT NULL,
  due      bigint   NOT NULL,
  covers   bigint   NOT NULL,
  until    bigint   NOT NULL,
  claimed  bigint   NOT NULL,
  started  bigint   NOT NULL,
  ended    bigint   NOT NULL,
  expires  bigint,                      -- NULL: by the server's rule
  retry_of bigint   NOT NULL,
  version  integer  NOT NULL,
  seq      integer  NOT NULL,
  attempt  integer  NOT NULL,
  failures integer  NOT NULL,
  losses   integer  NOT NULL,
  crashes  integer  NOT NULL,
  state    smallint NOT NULL,
  prio     smallint NOT NULL,
  ns       text     NOT NULL,
  queue    text     NOT NULL,
  name     text     NOT NULL,
  type     text     NOT NULL,
  owner    text     NOT NULL,
  worker   text     NOT NULL,
  reason   text     NOT NULL,
  PRIMARY KEY (pos)
) PARTITION BY RANGE (pos);
CREATE INDEX history_job     ON carillon.history (job, due);
CREATE INDEX history_bad     ON carillon.history (state, pos) WHERE state <> 4; -- costs a success nothing
CREATE INDEX history_expires ON carillon.history (expires, pos) WHERE expires IS NOT NULL;
CREATE TABLE carillon.history_rest PARTITION OF carillon.history DEFAULT;

-- Runs that failed for good, until they are retried or expire.
CREATE TABLE carillon.dead (
  pos      bigint   PRIMARY KEY,
  job      bigint   NOT NULL,
  due      bigint   NOT NULL,
  covers   bigint   NOT NULL,
  until    bigint   NOT NULL,
  claimed  bigint   NOT NULL,
  started  bigint   NOT NULL,
  ended    bigint   NOT NULL,
  expires  bigint,
  retry_of bigint   NOT NULL,
  version  integer  NOT NULL,
  seq      integer  NOT NULL,
  attempt  integer  NOT NULL,
  failures integer  NOT NULL,
  losses   integer  NOT NULL,
  crashes  integer  NOT NULL,
  state    smallint NOT NULL,
  prio     smallint NOT NULL,
  ns       text     NOT NULL,
  queue    text     NOT NULL,
  name     text     NOT NULL,
  type     text     NOT NULL,
  owner    text     NOT NULL,
  worker   text     NOT NULL,
  reason   text     NOT NULL
);
CREATE UNIQUE INDEX dead_run ON carillon.dead (job, due);
CREATE INDEX dead_expires    ON carillon.dead (expires, pos) WHERE expires IS NOT NULL;
CREATE INDEX dead_ended      ON carillon.dead (ended, pos) WHERE expires IS NULL;

-- What runs hand back. Most runs have neither a result nor a checkpoint.
CREATE TABLE carillon.result (
  job   bigint NOT NULL,
  due   bigint NOT NULL,
  ns    text   NOT NULL,
  value bytea  NOT NULL,
  PRIMARY KEY (job, due)
);
CREATE TABLE carillon.checkpoint (
  job   bigint NOT NULL,
  due   bigint NOT NULL,
  ns    text   NOT NULL,
  value bytea  NOT NULL,
  PRIMARY KEY (job, due)
);

CREATE TABLE carillon.guard (
  ns    text    COLLATE "C" NOT NULL,
  key   text    COLLATE "C" NOT NULL,
  rev   integer NOT NULL,
  value bytea   NOT NULL,
  PRIMARY KEY (ns, key)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000,
  autovacuum_vacuum_cost_delay = 0);
