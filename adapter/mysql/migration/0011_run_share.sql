-- The share of its queue that a run belongs to: a key, and behind a star its weight. Empty: none.
SET @step = (SELECT IF(COUNT(*) = 0,
  'ALTER TABLE run ADD share VARBINARY(80) NOT NULL DEFAULT ''''', 'DO 0')
  FROM information_schema.COLUMNS
  WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'run' AND COLUMN_NAME = 'share');
PREPARE step FROM @step;
EXECUTE step;
DEALLOCATE PREPARE step;
