-- Columns are called what their values are called in Go, in JSON and on the command line. The server changes
-- its description of a table, no row. A step can be repeated, and MySQL has no RENAME COLUMN IF EXISTS: each
-- statement looks for the old name first.

SET @step = (SELECT IF(COUNT(*) = 0, 'DO 0', 'ALTER TABLE job RENAME COLUMN ns TO namespace')
  FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'job'
    AND COLUMN_NAME = 'ns');
PREPARE step FROM @step;
EXECUTE step;

SET @step = (SELECT IF(COUNT(*) = 0, 'DO 0', 'ALTER TABLE definition RENAME COLUMN ns TO namespace')
  FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'definition'
    AND COLUMN_NAME = 'ns');
PREPARE step FROM @step;
EXECUTE step;

SET @step = (SELECT IF(COUNT(*) = 0, 'DO 0', 'ALTER TABLE job_label RENAME COLUMN ns TO namespace')
  FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'job_label'
    AND COLUMN_NAME = 'ns');
PREPARE step FROM @step;
EXECUTE step;

SET @step = (SELECT IF(COUNT(*) = 0, 'DO 0',
  'ALTER TABLE run RENAME COLUMN ns TO namespace, RENAME COLUMN prio TO priority')
  FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'run'
    AND COLUMN_NAME = 'ns');
PREPARE step FROM @step;
EXECUTE step;

SET @step = (SELECT IF(COUNT(*) = 0, 'DO 0',
  'ALTER TABLE history RENAME COLUMN ns TO namespace, RENAME COLUMN prio TO priority,
    RENAME COLUMN pos TO place')
  FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'history'
    AND COLUMN_NAME = 'ns');
PREPARE step FROM @step;
EXECUTE step;

SET @step = (SELECT IF(COUNT(*) = 0, 'DO 0',
  'ALTER TABLE dead RENAME COLUMN ns TO namespace, RENAME COLUMN prio TO priority,
    RENAME COLUMN pos TO place')
  FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'dead'
    AND COLUMN_NAME = 'ns');
PREPARE step FROM @step;
EXECUTE step;

SET @step = (SELECT IF(COUNT(*) = 0, 'DO 0', 'ALTER TABLE result RENAME COLUMN ns TO namespace')
  FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'result'
    AND COLUMN_NAME = 'ns');
PREPARE step FROM @step;
EXECUTE step;

SET @step = (SELECT IF(COUNT(*) = 0, 'DO 0', 'ALTER TABLE checkpoint RENAME COLUMN ns TO namespace')
  FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'checkpoint'
    AND COLUMN_NAME = 'ns');
PREPARE step FROM @step;
EXECUTE step;

SET @step = (SELECT IF(COUNT(*) = 0, 'DO 0', 'ALTER TABLE run_payload RENAME COLUMN ns TO namespace')
  FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'run_payload'
    AND COLUMN_NAME = 'ns');
PREPARE step FROM @step;
EXECUTE step;

SET @step = (SELECT IF(COUNT(*) = 0, 'DO 0', 'ALTER TABLE guard RENAME COLUMN ns TO namespace')
  FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'guard'
    AND COLUMN_NAME = 'ns');
PREPARE step FROM @step;
EXECUTE step;

SET @step = (SELECT IF(COUNT(*) = 0, 'DO 0', 'ALTER TABLE log RENAME COLUMN ns TO namespace')
  FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'log'
    AND COLUMN_NAME = 'ns');
PREPARE step FROM @step;
EXECUTE step;

DEALLOCATE PREPARE step;
