-- What runs print, in compressed pieces. A partition has the runs that were due on one day, so all of a run
-- is in one, and a day that no chunk keeps any more goes at once. Days without a partition of their own are
-- in log_other.

CREATE TABLE carillon.log (
  ns      text    NOT NULL,
  due     bigint  NOT NULL,
  job     bigint  NOT NULL,
  attempt integer NOT NULL,
  first   bigint  NOT NULL,           -- offset of the first line
  -- how many; part of the key, because a piece may be sent again with more of them
  lines   integer NOT NULL,
  written bigint  NOT NULL,           -- when, by the clock of the database
  keep    bigint  NOT NULL,           -- milliseconds; 0: by the server's rule
  body    bytea   NOT NULL,           -- see logs_pack.go
  PRIMARY KEY (ns, due, job, attempt, first, lines)
) PARTITION BY RANGE (due);

ALTER TABLE carillon.log ALTER COLUMN body SET STORAGE EXTERNAL; -- compressed already

-- What a trim looks for. Rows are added in the order of written, so a summary per range of pages is all that
-- it takes.
CREATE INDEX log_written ON carillon.log USING brin (written) WITH (pages_per_range = 32, autosummarize = on);
CREATE INDEX log_keep ON carillon.log ((written + keep)) WHERE keep > 0;

CREATE TABLE carillon.log_other PARTITION OF carillon.log DEFAULT;

-- What the last trim said: pieces by the server's rule that were written before "before" are gone, and so are
-- those whose own time was over at "at". Readers leave them out from that moment on; their rows go later, if
-- possible with a whole day.
CREATE TABLE carillon.log_horizon (
  one    boolean PRIMARY KEY DEFAULT true CHECK (one),
  at     bigint NOT NULL DEFAULT 0,
  before bigint NOT NULL DEFAULT 0
);
INSERT INTO carillon.log_horizon DEFAULT VALUES;

-- add_log_day makes the partition of a day, given by its first millisecond. Writers go on meanwhile: only
-- log_other is closed to them for a moment, and if that does not come about soon the day stays there and is
-- tried again later.
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

-- drop_log_day removes the partition of a day, if nothing in it is kept. It looks once without a lock, as it
-- would stop all writers for nothing, and again with it, as another node may have written meanwhile. All
-- happens in the database: a node that dies halfway does not leave a lock behind.
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
    -- before its partition: that is the order of everybody
    LOCK TABLE ONLY carillon.log IN ACCESS EXCLUSIVE MODE;
    locked := true;
  END LOOP;
  EXECUTE format('DROP TABLE carillon.%I', part);
  RETURN true;
END $$;
