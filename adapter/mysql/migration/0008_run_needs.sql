-- What a worker must have to perform a run: the type of a handler, or another kind of target behind a colon.
-- Empty in rows from before: not known, so that any worker may be given the run. Lanes have it too, and the
-- namespace.
SET @step = (SELECT IF(COUNT(*) = 0,
  'ALTER TABLE run ADD needs VARBINARY(255) NOT NULL DEFAULT '''', DROP KEY run_lane,
    ADD KEY run_lane (namespace, queue, needs, priority, wake, due, job, shard)', 'DO 0')
  FROM information_schema.COLUMNS
  WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'run' AND COLUMN_NAME = 'needs');
PREPARE step FROM @step;
EXECUTE step;
DEALLOCATE PREPARE step;
