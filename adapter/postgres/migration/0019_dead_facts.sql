-- The fingerprint of a dead letter's reason. Nodes fill in those of letters that older nodes wrote: the
-- database cannot compute them. bucket says in which row of dead_group the letter is counted.
ALTER TABLE carillon.dead ADD COLUMN fingerprint bigint, ADD COLUMN bucket smallint NOT NULL DEFAULT 0;
ALTER TABLE carillon.dead ALTER COLUMN bucket SET DEFAULT (pg_backend_pid() & 15)::smallint;
CREATE INDEX dead_fingerprint ON carillon.dead (namespace, fingerprint, place);
CREATE INDEX dead_type        ON carillon.dead (namespace, type, place);
CREATE INDEX dead_missing     ON carillon.dead (place) WHERE fingerprint IS NULL;

-- How many dead letters there are of each fingerprint and type. Triggers keep it, so that no way to write a
-- letter can forget it. Connections count in different buckets: a million runs that fail with one error must
-- not wait for one row.
CREATE TABLE carillon.dead_group (
  namespace   text     NOT NULL,
  fingerprint bigint   NOT NULL,
  type        text     NOT NULL,
  bucket      smallint NOT NULL,
  letters     bigint   NOT NULL,
  first       bigint   NOT NULL,
  last        bigint   NOT NULL,
  PRIMARY KEY (namespace, fingerprint, type, bucket)
) WITH (fillfactor = 50);

-- All rows are locked in the order of their keys, so that two commits seldom deadlock.
CREATE FUNCTION carillon.dead_added() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO carillon.dead_group AS g (namespace, fingerprint, type, bucket, letters, first, last)
  SELECT namespace, fingerprint, type, bucket, count(*), min(ended), max(ended)
  FROM added WHERE fingerprint IS NOT NULL GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4
  ON CONFLICT (namespace, fingerprint, type, bucket) DO UPDATE SET letters = g.letters + excluded.letters,
    first = least(g.first, excluded.first), last = greatest(g.last, excluded.last);
  RETURN NULL;
END $$;

CREATE FUNCTION carillon.dead_removed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO carillon.dead_group AS g (namespace, fingerprint, type, bucket, letters, first, last)
  SELECT namespace, fingerprint, type, bucket, -count(*), min(ended), max(ended)
  FROM removed WHERE fingerprint IS NOT NULL GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4
  ON CONFLICT (namespace, fingerprint, type, bucket) DO UPDATE SET letters = g.letters + excluded.letters;
  DELETE FROM carillon.dead_group g
  USING (SELECT DISTINCT namespace, fingerprint, type, bucket FROM removed) r
  WHERE g.namespace = ANY(ARRAY[r.namespace]) AND g.fingerprint = r.fingerprint AND g.type = r.type
    AND g.bucket = r.bucket AND g.letters = 0;
  RETURN NULL;
END $$;

CREATE TRIGGER dead_added AFTER INSERT ON carillon.dead REFERENCING NEW TABLE AS added
  FOR EACH STATEMENT EXECUTE FUNCTION carillon.dead_added();
CREATE TRIGGER dead_removed AFTER DELETE ON carillon.dead REFERENCING OLD TABLE AS removed
  FOR EACH STATEMENT EXECUTE FUNCTION carillon.dead_removed();
-- A letter that takes the place of another one, or gets its fingerprint. Triggers fire in the order of their
-- names.
CREATE TRIGGER dead_changed_added AFTER UPDATE ON carillon.dead REFERENCING NEW TABLE AS added
  FOR EACH STATEMENT EXECUTE FUNCTION carillon.dead_added();
CREATE TRIGGER dead_changed_removed AFTER UPDATE ON carillon.dead REFERENCING OLD TABLE AS removed
  FOR EACH STATEMENT EXECUTE FUNCTION carillon.dead_removed();
