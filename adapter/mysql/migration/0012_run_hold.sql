-- What a run waits for beside its wake, and the slots of limits that its present attempt has taken. Empty:
-- none.
SET @step = (SELECT IF(COUNT(*) = 0,
  'ALTER TABLE run ADD hold VARBINARY(255) NOT NULL DEFAULT '''',
    ADD slots VARBINARY(4000) NOT NULL DEFAULT ''''', 'DO 0')
  FROM information_schema.COLUMNS
  WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'run' AND COLUMN_NAME = 'hold');
PREPARE step FROM @step;
EXECUTE step;
DEALLOCATE PREPARE step;

-- The lines: the runs that have a hold, in the order in which they leave. A row is written and deleted by the
-- commit that writes the run (see lines.go).
CREATE TABLE IF NOT EXISTS line (
  namespace VARBINARY(255) NOT NULL,
  hold      VARBINARY(255) NOT NULL,
  due       BIGINT         NOT NULL,
  job       BIGINT         NOT NULL,
  PRIMARY KEY (namespace, hold, due, job),
  KEY line_run (due, job)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC STATS_PERSISTENT=0 DEFAULT CHARSET=utf8mb4;
