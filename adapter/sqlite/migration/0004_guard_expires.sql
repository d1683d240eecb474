-- When a guard can be removed; NULL: never. Guards without an expiry are not in the index.
ALTER TABLE guard ADD COLUMN expires INTEGER;
CREATE INDEX guard_expires ON guard (expires, namespace, key) WHERE expires IS NOT NULL;
