-- Flags have 16 bits. The table is written again, which takes a moment for each million of unfinished runs.
ALTER TABLE run MODIFY flags SMALLINT UNSIGNED NOT NULL DEFAULT 0;

SET @step = (SELECT IF(COUNT(*) = 0, 'DO 0', 'ALTER TABLE dead RENAME KEY dead_pos TO dead_place')
  FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'dead'
    AND INDEX_NAME = 'dead_pos');
PREPARE step FROM @step;
EXECUTE step;
DEALLOCATE PREPARE step;
