-- What a node or worker tells about itself when it joins, see sqlcommon/profile.go. A step can be repeated,
-- and MySQL has no ADD COLUMN IF NOT EXISTS.
SET @step = (SELECT IF(COUNT(*) = 0, 'ALTER TABLE session ADD profile MEDIUMBLOB', 'DO 0')
  FROM information_schema.COLUMNS
  WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'session' AND COLUMN_NAME = 'profile');
PREPARE step FROM @step;
EXECUTE step;
DEALLOCATE PREPARE step;
