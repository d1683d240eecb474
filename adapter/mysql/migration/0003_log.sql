-- The output of runs, in pieces, a partition for every day on which runs were due (see logs_day.go): all
-- output of a run is in one partition, which goes as a whole when nothing in it has to be kept any more. The
-- last partition takes output for which no day was made.
CREATE TABLE IF NOT EXISTS log (
  ns      VARBINARY(255) NOT NULL,
  due     BIGINT         NOT NULL,
  job     BIGINT         NOT NULL,
  attempt INT            NOT NULL,
  first   BIGINT         NOT NULL,    -- offset of the first line
  `lines` INT            NOT NULL,    -- how many
  written BIGINT         NOT NULL,    -- by the clock of this database
  keep    BIGINT         NOT NULL,    -- milliseconds; 0: by the server's rule
  body    LONGBLOB       NOT NULL,    -- see logs_piece.go
  PRIMARY KEY (ns, due, job, attempt, first),
  KEY log_keep (keep, written)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC STATS_PERSISTENT=0 DEFAULT CHARSET=utf8mb4
PARTITION BY RANGE (due) (PARTITION later VALUES LESS THAN MAXVALUE);
