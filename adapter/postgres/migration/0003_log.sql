-- The lines that runs print, in compressed pieces. A partition has the runs that were due on one day. So all
-- pieces of a run are in one partition, and a day whose pieces have all expired is removed at once. Days
-- without a partition are in log_other.

CREATE TABLE carillon.log (
  ns      text    NOT NULL,
  due     bigint  NOT NULL,
  job     bigint  NOT NULL,
  attempt integer NOT NULL,
  first   bigint  NOT NULL,           -- offset of the first line
  -- how many it has; a part of the key, because a worker may send a piece again with more lines
  lines   integer NOT NULL,
  written bigint  NOT NULL,           -- when, by the clock of the database
  keep    bigint  NOT NULL,           -- milliseconds; 0: by the server's rule
  body    bytea   NOT NULL,           -- see logs_pack.go
  PRIMARY KEY (ns, due, job, attempt, first, lines)
) PARTITION BY RANGE (due);

ALTER TABLE carillon.log ALTER COLUMN body SET STORAGE EXTERNAL; -- compressed already

-- The index by which a trim finds expired pieces. New rows are nearly in the order of written, so a summary
-- of each range of pages is enough.
CREATE INDEX log_written ON carillon.log USING brin (written) WITH (pages_per_range = 32, autosummarize = on);
CREATE INDEX log_keep ON carillon.log ((written + keep)) WHERE keep > 0;

CREATE TABLE carillon.log_other PARTITION OF carillon.log DEFAULT;

-- The last trim. Two kinds of pieces have expired: those without a time of their own that were written before
-- "before", and those whose own time was over at "at". Readers leave them out from then on. Their rows are
-- removed later, if possible together with a whole day.
CREATE TABLE carillon.log_horizon (
  one    boolean PRIMARY KEY DEFAULT true CHECK (one),
  at     bigint NOT NULL DEFAULT 0,
  before bigint NOT NULL DEFAULT 0
);
INSERT INTO carillon.log_horizon DEFAULT VALUES;

-- add_log_day makes the partition of a day, which is given by its first millisecond. Writers can go on
-- meanwhile; only log_other is locked, for a moment. If the lock is not free soon, the day stays in
-- log_other, and a node tries again later.
CREATE FUNCTION carillon.add_log_day(day bigint) RETURNS boolean LANGUAGE plpgsql
  SET lock_timeout = '200ms' AS $$
DECLARE
  part text := 'log_' || to_char(to_timestamp(day / 1000) AT TIME ZONE 'UTC', 'YYYYMMDD');
  till bigint := day + 86400000;
BEGIN
  IF to_regclass('carillon.' || part) IS NOT NULL THEN
    RETURN false;
  END IF;
  LOCK TABLE ONLY carillon.log IN SHARE UPDATE EXCLUSIVE MODE; -- one node at a time; writers do not mind
  IF to_regclass('carillon.' || part) IS NOT NULL THEN
    RETURN false;
  END IF;
  EXECUTE format('CREATE TABLE carillon.%I (LIKE carillon.log INCLUDING ALL)', part);
  LOCK TABLE carillon.log_other IN ACCESS EXCLUSIVE MODE;
  EXECUTE format('WITH moved AS (DELETE FROM carillon.log_other WHERE due >= %s AND due < %s RETURNING *)
    INSERT INTO carillon.%I SELECT * FROM moved', day, till, part);
  EXECUTE format('ALTER TABLE carillon.log ATTACH PARTITION carillon.%I FOR VALUES FROM (%s) TO (%s)', part,
    day, till);
  RETURN true;
END $$;

-- drop_log_day removes the partition of a day if all its pieces have expired. It checks this first without a
-- lock, because a lock would stop all writers for nothing, and then again with the lock, because another node
-- may have written meanwhile. All of it runs in the database, so a node that dies leaves no lock behind.
CREATE FUNCTION carillon.drop_log_day(part text) RETURNS boolean LANGUAGE plpgsql SET lock_timeout = '100ms'
  SET enable_bitmapscan = on AS $$
DECLARE
  kept boolean;
  locked boolean := false;
BEGIN
  LOOP
    IF to_regclass('carillon.' || part) IS NULL THEN
      RETURN false;
    END IF;
    EXECUTE format('SELECT EXISTS (SELECT FROM carillon.%1$I WHERE keep = 0 AND written >= h.before)
      OR EXISTS (SELECT FROM carillon.%1$I WHERE keep > 0 AND written + keep >= h.at)
        FROM carillon.log_horizon h', part) INTO kept;
    IF kept THEN
      RETURN false;
    END IF;
    EXIT WHEN locked;
    -- all transactions lock this table before its partitions
    LOCK TABLE ONLY carillon.log IN ACCESS EXCLUSIVE MODE;
    locked := true;
  END LOOP;
  EXECUTE format('DROP TABLE carillon.%I', part);
  RETURN true;
END $$;
