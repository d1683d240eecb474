-- What a run waits for beside its wake, and the slots of limits that its present attempt has taken. NULL:
-- none. The index has the lines: runs with the same hold, in the order in which they leave. A run without a
-- hold is not in it, and its updates touch no index because of it.
ALTER TABLE carillon.run ADD COLUMN IF NOT EXISTS hold text COLLATE "C";
ALTER TABLE carillon.run ADD COLUMN IF NOT EXISTS slots text;
CREATE INDEX IF NOT EXISTS run_hold ON carillon.run (namespace COLLATE "C", hold, due, job)
  WHERE hold IS NOT NULL;
