-- What a run waits for beside its wake, and the slots of limits that its present attempt has taken. NULL:
-- none. The index has the lines: runs with the same hold, in the order in which they leave. A run without a
-- hold is not in it.
ALTER TABLE run ADD COLUMN hold TEXT;
ALTER TABLE run ADD COLUMN slots TEXT;
CREATE INDEX run_hold ON run (namespace, hold, due, job) WHERE hold IS NOT NULL;
