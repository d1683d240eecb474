-- Columns are called what their values are called in Go, in JSON and on the command line. No row is
-- rewritten. All tables are locked until the end, and a program of the version before cannot use them after
-- it.
ALTER TABLE carillon.job         RENAME COLUMN ns TO namespace;
ALTER TABLE carillon.definition  RENAME COLUMN ns TO namespace;
ALTER TABLE carillon.job_label   RENAME COLUMN ns TO namespace;
ALTER TABLE carillon.run         RENAME COLUMN ns TO namespace;
ALTER TABLE carillon.run         RENAME COLUMN prio TO priority;
ALTER TABLE carillon.history     RENAME COLUMN ns TO namespace;
ALTER TABLE carillon.history     RENAME COLUMN prio TO priority;
ALTER TABLE carillon.history     RENAME COLUMN pos TO place;
ALTER TABLE carillon.dead        RENAME COLUMN ns TO namespace;
ALTER TABLE carillon.dead        RENAME COLUMN prio TO priority;
ALTER TABLE carillon.dead        RENAME COLUMN pos TO place;
ALTER TABLE carillon.result      RENAME COLUMN ns TO namespace;
ALTER TABLE carillon.checkpoint  RENAME COLUMN ns TO namespace;
ALTER TABLE carillon.run_payload RENAME COLUMN ns TO namespace;
ALTER TABLE carillon.guard       RENAME COLUMN ns TO namespace;
ALTER TABLE carillon.log         RENAME COLUMN ns TO namespace;
ALTER TABLE carillon.intake      RENAME COLUMN ns TO namespace;

-- submit leaves a job and returns its id. It makes ids as idgen.go does, with the node number 1023, which no
-- node has. A clock that was set back could make an id again, so submit takes no id that exists.
CREATE OR REPLACE FUNCTION carillon.submit(job jsonb, namespace text) RETURNS text
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  now bigint;
  made bigint;
BEGIN
  PERFORM carillon.check_job(job);
  IF namespace IS NULL OR NOT carillon.is_word(namespace, '/') THEN
    PERFORM carillon.refuse('namespace', coalesce(namespace, 'null'),
      '1 to 64 characters of a-z A-Z 0-9 . _ - @, the first a letter or digit');
  END IF;
  LOOP
    now := carillon.clock();
    made := ((now - 1735689600000) << 22) | (1023 << 12) | nextval('carillon.intake_number'); -- since 2025
    CONTINUE WHEN EXISTS (SELECT FROM carillon.job j WHERE j.id = made);
    INSERT INTO carillon.intake (id, shard, at, namespace, body)
      VALUES (made, carillon.shard_of(made), now, submit.namespace, job::text)
      ON CONFLICT (id) DO NOTHING;
    IF FOUND THEN
      RETURN carillon.job_text(made);
    END IF;
  END LOOP;
END $$;
