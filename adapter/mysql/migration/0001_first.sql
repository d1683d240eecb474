-- New rows go to the end of the busy tables, because ids rise with time. The key (due, job) is the name of a
-- run and also the index of due times. Times are milliseconds since 1970; 0 or NULL means none. States and
-- flags are the numbers of package carillon. Names are bytes: there is no collation, and a trailing space
-- counts. The value that most rows have is the default of its column, so it need not be written (see row.go).
-- Every statement can be repeated: MySQL cannot undo them.

CREATE TABLE IF NOT EXISTS job (
  id      BIGINT         NOT NULL,
  ns      VARBINARY(255) NOT NULL DEFAULT 'default',
  rev     INT            NOT NULL DEFAULT 1,
  version INT            NOT NULL DEFAULT 1,    -- of the definition: name, type, owner, spec, payload
  state   TINYINT        NOT NULL DEFAULT 1,
  created BIGINT         NOT NULL,
  updated BIGINT         NOT NULL,
  due     BIGINT,                     -- of a one-off: when its first run was due; NULL: recurring
  name    VARBINARY(1000) NOT NULL,
  type    VARBINARY(255) NOT NULL,
  owner   VARBINARY(255) NOT NULL DEFAULT 'default',
  spec    LONGBLOB,                   -- unusual parts of the definition, JSON (sqlcommon/spec.go), or NULL
  payload LONGBLOB,
  PRIMARY KEY (id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4;

-- Older versions of definitions, moved here by the change that replaced them.
CREATE TABLE IF NOT EXISTS definition (
  job     BIGINT         NOT NULL,
  version INT            NOT NULL,
  ns      VARBINARY(255) NOT NULL,
  name    VARBINARY(1000) NOT NULL,
  type    VARBINARY(255) NOT NULL,
  owner   VARBINARY(255) NOT NULL,
  spec    LONGBLOB,
  payload LONGBLOB,
  PRIMARY KEY (job, version)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4;

CREATE TABLE IF NOT EXISTS job_label (
  ns    VARBINARY(255)  NOT NULL,
  `key` VARBINARY(255)  NOT NULL,
  value VARBINARY(1000) NOT NULL,
  job   BIGINT          NOT NULL,
  PRIMARY KEY (ns, `key`, value, job),
  KEY job_label_job (job)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4;

-- Unfinished runs. MySQL has no index over a part of the rows: an index that has NULL for the others costs as
-- much as one over all rows, and finds less.
CREATE TABLE IF NOT EXISTS run (
  due      BIGINT           NOT NULL,
  job      BIGINT           NOT NULL,
  wake     BIGINT           NOT NULL,
  covers   BIGINT           NOT NULL DEFAULT 0,
  claimed  BIGINT           NOT NULL DEFAULT 0,
  started  BIGINT           NOT NULL DEFAULT 0,
  retry_of BIGINT           NOT NULL DEFAULT 0,
  rev      INT              NOT NULL DEFAULT 1,
  version  INT              NOT NULL DEFAULT 1,
  seq      INT              NOT NULL DEFAULT 0,
  attempt  INT              NOT NULL DEFAULT 0,
  failures INT              NOT NULL DEFAULT 0,
  losses   INT              NOT NULL DEFAULT 0,
  crashes  INT              NOT NULL DEFAULT 0,
  state    TINYINT          NOT NULL DEFAULT 1,
  prio     TINYINT          NOT NULL DEFAULT 5,
  flags    TINYINT UNSIGNED NOT NULL DEFAULT 0, -- without Extra
  extra    TINYINT          NOT NULL DEFAULT 0, -- 1: not the one run of a one-off job
  shard    TINYINT UNSIGNED NOT NULL,
  ns       VARBINARY(255)   NOT NULL DEFAULT 'default',
  queue    VARBINARY(255)   NOT NULL DEFAULT 'default',
  worker   VARBINARY(255)   NOT NULL DEFAULT '',
  reason   LONGBLOB         NOT NULL DEFAULT (''),
  PRIMARY KEY (due, job),
  KEY run_wake (wake, due, job, shard),
  KEY run_lane (queue, prio, wake, due, job, shard),
  KEY run_job (job, due)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC STATS_PERSISTENT=0 DEFAULT CHARSET=utf8mb4;

-- Ended runs in the order in which they ended, a partition a day (see days.go). The last partition takes
-- records for which no day was made.
CREATE TABLE IF NOT EXISTS history (
  pos      BIGINT         NOT NULL AUTO_INCREMENT,
  ns       VARBINARY(255) NOT NULL DEFAULT 'default',
  job      BIGINT         NOT NULL,
  due      BIGINT         NOT NULL,
  covers   BIGINT         NOT NULL DEFAULT 0,
  until    BIGINT         NOT NULL DEFAULT 0,
  claimed  BIGINT         NOT NULL DEFAULT 0,
  started  BIGINT         NOT NULL DEFAULT 0,
  ended    BIGINT         NOT NULL,
  expires  BIGINT,                    -- NULL: by the server's rule
  retry_of BIGINT         NOT NULL DEFAULT 0,
  version  INT            NOT NULL DEFAULT 1,
  seq      INT            NOT NULL DEFAULT 0,
  attempt  INT            NOT NULL DEFAULT 1,
  failures INT            NOT NULL DEFAULT 0,
  losses   INT            NOT NULL DEFAULT 0,
  crashes  INT            NOT NULL DEFAULT 0,
  state    TINYINT        NOT NULL DEFAULT 4,
  prio     TINYINT        NOT NULL DEFAULT 5,
  queue    VARBINARY(255) NOT NULL DEFAULT 'default',
  name     VARBINARY(1000) NOT NULL DEFAULT '',
  type     VARBINARY(255) NOT NULL DEFAULT '',
  owner    VARBINARY(255) NOT NULL DEFAULT 'default',
  worker   VARBINARY(255) NOT NULL DEFAULT '',
  reason   LONGBLOB       NOT NULL DEFAULT (''),
  PRIMARY KEY (pos, ended),
  KEY history_job (job, due, pos),
  KEY history_state (state, pos),
  KEY history_expires (expires, ended, pos)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC STATS_PERSISTENT=0 DEFAULT CHARSET=utf8mb4
PARTITION BY RANGE (ended) (PARTITION later VALUES LESS THAN MAXVALUE);

-- Runs that failed for good, until they are retried or expire.
CREATE TABLE IF NOT EXISTS dead (
  pos      BIGINT         NOT NULL AUTO_INCREMENT,
  ns       VARBINARY(255) NOT NULL DEFAULT 'default',
  job      BIGINT         NOT NULL,
  due      BIGINT         NOT NULL,
  covers   BIGINT         NOT NULL DEFAULT 0,
  until    BIGINT         NOT NULL DEFAULT 0,
  claimed  BIGINT         NOT NULL DEFAULT 0,
  started  BIGINT         NOT NULL DEFAULT 0,
  ended    BIGINT         NOT NULL,
  expires  BIGINT,
  retry_of BIGINT         NOT NULL DEFAULT 0,
  version  INT            NOT NULL DEFAULT 1,
  seq      INT            NOT NULL DEFAULT 0,
  attempt  INT            NOT NULL DEFAULT 1,
  failures INT            NOT NULL DEFAULT 0,
  losses   INT            NOT NULL DEFAULT 0,
  crashes  INT            NOT NULL DEFAULT 0,
  state    TINYINT        NOT NULL DEFAULT 4,
  prio     TINYINT        NOT NULL DEFAULT 5,
  queue    VARBINARY(255) NOT NULL DEFAULT 'default',
  name     VARBINARY(1000) NOT NULL DEFAULT '',
  type     VARBINARY(255) NOT NULL DEFAULT '',
  owner    VARBINARY(255) NOT NULL DEFAULT 'default',
  worker   VARBINARY(255) NOT NULL DEFAULT '',
  reason   LONGBLOB       NOT NULL DEFAULT (''),
  PRIMARY KEY (job, due),
  KEY dead_pos (pos),
  KEY dead_expires (expires, ended, pos)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4;

-- The output of runs. Most runs have neither a result nor a checkpoint.
CREATE TABLE IF NOT EXISTS result (
  due   BIGINT         NOT NULL,
  job   BIGINT         NOT NULL,
  ns    VARBINARY(255) NOT NULL,
  value LONGBLOB       NOT NULL,
  PRIMARY KEY (due, job)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4;
CREATE TABLE IF NOT EXISTS checkpoint (
  due   BIGINT         NOT NULL,
  job   BIGINT         NOT NULL,
  ns    VARBINARY(255) NOT NULL,
  value LONGBLOB       NOT NULL,
  PRIMARY KEY (due, job)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4;

CREATE TABLE IF NOT EXISTS guard (
  ns    VARBINARY(255)  NOT NULL,
  `key` VARBINARY(1000) NOT NULL,
  rev   INT             NOT NULL DEFAULT 1,
  value LONGBLOB        NOT NULL,
  PRIMARY KEY (ns, `key`)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4;
