-- The nodes and workers that are alive. A beat changes its row in place: it changes no column of an index,
-- and the page has room for the second version. So the indexes need no cleaning.

CREATE FUNCTION carillon.clock() RETURNS bigint LANGUAGE sql VOLATILE PARALLEL SAFE
  AS $$ SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint $$;
COMMENT ON FUNCTION carillon.clock() IS 'milliseconds since 1970 by the clock of the database, rounded down';

CREATE TABLE carillon.session (
  id     text   COLLATE "C" PRIMARY KEY,
  kind   text   NOT NULL,
  addr   text   NOT NULL,
  joined bigint NOT NULL,
  beat   bigint NOT NULL,
  number bigint NOT NULL DEFAULT 0,   -- of the last beat; one with a lower number comes too late
  holds  bytea  NOT NULL              -- the attempts that it said it holds, see internal/sqlcommon/holds.go
) WITH (fillfactor = 40, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
  autovacuum_vacuum_cost_delay = 0);

ALTER TABLE carillon.session ALTER COLUMN holds SET STORAGE EXTERNAL; -- packed already

-- beat prolongs sessions, in the order given, and returns those that are there. It is a loop because a join
-- of two things of unknown size may be planned the wrong way round. What is still held is not written again:
-- a long list lives outside of its row, and stays there.
CREATE FUNCTION carillon.beat(ids text[], numbers bigint[],
  holds bytea[]) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
  said record;
BEGIN
  FOR said IN SELECT * FROM unnest(ids, numbers, holds) AS x(id, number, holds) LOOP
    UPDATE carillon.session s SET beat = carillon.clock(), number = greatest(s.number, said.number),
        holds = CASE WHEN s.holds = said.holds THEN s.holds ELSE said.holds END
      WHERE s.id = said.id AND (said.number = 0 OR said.number > s.number);
    IF FOUND OR EXISTS (SELECT 1 FROM carillon.session s WHERE s.id = said.id) THEN
      RETURN NEXT said.id;
    END IF;
  END LOOP;
END $$;
