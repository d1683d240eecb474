-- A beat says which earlier beat its sender has an answer to. So a node can tell that the beat was sent after
-- that answer, however long it was on its way.
SET @step = (SELECT IF(COUNT(*) = 0, 'ALTER TABLE session ADD heard BIGINT NOT NULL DEFAULT 0', 'DO 0')
  FROM information_schema.COLUMNS
  WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'session' AND COLUMN_NAME = 'heard');
PREPARE step FROM @step;
EXECUTE step;
DEALLOCATE PREPARE step;
