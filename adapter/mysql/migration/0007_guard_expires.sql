-- When a guard can be removed; NULL: never. MySQL indexes NULL too: a guard without an expiry is written to
-- the index once, when it is made, but not when it changes.
SET @step = (SELECT IF(COUNT(*) = 0,
  'ALTER TABLE guard ADD expires BIGINT, ADD INDEX guard_expires (expires)', 'DO 0')
  FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'guard'
    AND COLUMN_NAME = 'expires');
PREPARE step FROM @step;
EXECUTE step;
DEALLOCATE PREPARE step;
