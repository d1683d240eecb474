-- When a guard can be removed; NULL: never. Guards without an expiry are not in the index, and a write that
-- leaves the expiry as it is touches no index.
ALTER TABLE carillon.guard ADD COLUMN IF NOT EXISTS expires bigint;
CREATE INDEX IF NOT EXISTS guard_expires ON carillon.guard (expires, namespace, key)
  WHERE expires IS NOT NULL;
