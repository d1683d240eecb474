-- The nodes and workers that are alive: a row for each, written about once a second. The table is read as a
-- whole. Times are by the clock of this database.
CREATE TABLE IF NOT EXISTS session (
  id     VARBINARY(255)  NOT NULL,
  kind   VARBINARY(255)  NOT NULL,
  addr   VARBINARY(1000) NOT NULL,
  joined BIGINT          NOT NULL,
  beat   BIGINT          NOT NULL,
  number BIGINT          NOT NULL DEFAULT 0, -- of the last beat; a beat with a lower number comes too late
  holds  LONGBLOB        NOT NULL,    -- the attempts that it said it holds, see sqlcommon/holds.go
  PRIMARY KEY (id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC STATS_PERSISTENT=0 DEFAULT CHARSET=utf8mb4;
