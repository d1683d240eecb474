-- A beat says which earlier beat its sender has an answer to. So a node can tell that the beat was sent after
-- that answer, however long it was on its way.
ALTER TABLE carillon.session ADD COLUMN IF NOT EXISTS heard bigint NOT NULL DEFAULT 0;

DROP FUNCTION carillon.beat(text[], bigint[], bytea[]);

-- beat prolongs sessions, in the order given, and returns for each: 2 it was prolonged, 1 a beat with the
-- same or a higher number was here before, 0 there is no such session. It is a loop because a join of two
-- sets of unknown size may be planned the wrong way round. What is still held is not written again: a long
-- list lives outside of its row, and stays there.
CREATE FUNCTION carillon.beat(ids text[], numbers bigint[], holds bytea[], heard bigint[])
  RETURNS SETOF bigint LANGUAGE plpgsql AS $$
DECLARE
  said record;
BEGIN
  FOR said IN SELECT * FROM unnest(ids, numbers, holds, heard) AS x(id, number, holds, heard) LOOP
    UPDATE carillon.session s SET beat = carillon.clock(), number = greatest(s.number, said.number),
        heard = said.heard, holds = CASE WHEN s.holds = said.holds THEN s.holds ELSE said.holds END
      WHERE s.id = said.id AND (said.number = 0 OR said.number > s.number);
    IF FOUND THEN
      RETURN NEXT 2;
    ELSIF EXISTS (SELECT 1 FROM carillon.session s WHERE s.id = said.id) THEN
      RETURN NEXT 1;
    ELSE
      RETURN NEXT 0;
    END IF;
  END LOOP;
END $$;
