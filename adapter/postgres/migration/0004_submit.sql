-- Jobs that applications submit inside their own transactions:
--
--   SELECT carillon.submit('{"type": "email.send", "target": {"handler": {}}, "payload": {"to": "ann"}}');
--
-- The job exists if the transaction commits, and soon after that a node admits it. A role that can submit can
-- run commands on workers, so no role can until it is granted:
--
--   GRANT USAGE ON SCHEMA carillon TO shop;
--   GRANT EXECUTE ON FUNCTION carillon.submit(jsonb) TO shop;         -- into the namespace "default"
--   GRANT EXECUTE ON FUNCTION carillon.submit(jsonb, text) TO shop;   -- into any

CREATE TABLE carillon.intake (
  id     bigint   PRIMARY KEY,
  shard  smallint NOT NULL,
  state  smallint NOT NULL DEFAULT 0,            -- 0: waits to be admitted, 1: refused
  at     bigint   NOT NULL,
  ns     text     COLLATE "C" NOT NULL,
  body   text     NOT NULL,
  reason text     NOT NULL DEFAULT ''
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
CREATE INDEX intake_left    ON carillon.intake (id) WHERE state = 0;
CREATE INDEX intake_refused ON carillon.intake (ns, id) WHERE state = 1;

-- The last twelve bits of ids that are made here.
CREATE SEQUENCE carillon.intake_number MINVALUE 0 MAXVALUE 4095 CYCLE;

-- shard_of is JobID.Shard in shard.go: the upper six bits of the product with 2^64 divided by the golden
-- ratio, modulo 2^64.
CREATE FUNCTION carillon.shard_of(job bigint) RETURNS smallint LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
  AS $$ SELECT div(mod(job * 11400714819323198485, 18446744073709551616), 288230376151711744)::smallint $$;

-- job_text is JobID.String in id.go: 13 digits of five bits each, without the letters i, l, o and u.
CREATE FUNCTION carillon.job_text(job bigint) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
  AS $$ SELECT 'job_' || string_agg(substr('0123456789abcdefghjkmnpqrstvwxyz',
    (job >> (5 * digit) & 31)::int + 1, 1), '' ORDER BY digit DESC)
        FROM generate_series(0, 12) digit $$;

-- refuse says which field is wrong, what was given and what would be right.
CREATE FUNCTION carillon.refuse(field text, given text, want text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF length(given) > 80 THEN
    given := left(given, 77) || '...';
  END IF;
  RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
    MESSAGE = format('%s: "%s" is not valid: want %s', field, given, want);
END $$;

-- check_job refuses a job for faults that it can see without the rules of schedules and targets. A node
-- checks the rest when it admits the job, by the same rules as for the API; if it refuses the job, it keeps
-- it with the reason.
CREATE FUNCTION carillon.check_job(job jsonb) RETURNS void LANGUAGE plpgsql STABLE AS $$
DECLARE
  known CONSTANT jsonb := '{"name": "text", "type": "text", "owner": "text", "labels": "an object of text",
    "queue": "text", "priority": "a whole number from 0 to 9, higher first", "payload": "any JSON",
    "schedule": "an object", "target": "an object",
    "timeout": "a duration such as \"90s\", \"1h30m\" or \"30d\"", "retry": "an object",
    "overlap": "skip, queue, queue_all, replace or allow", "misfire": "an object, or text",
    "retention": "an object"}';
  field text;
  value jsonb;
  kind text;
  given text;
  good boolean;
BEGIN
  IF job IS NULL OR jsonb_typeof(job) <> 'object' THEN
    PERFORM carillon.refuse('job', coalesce(carillon.given(job), 'null'), 'a JSON object');
  END IF;
  IF octet_length(job::text) > 1048576 THEN
    PERFORM carillon.refuse('job', octet_length(job::text) || ' bytes', 'at most 1 MiB');
  END IF;
  FOR field, value IN SELECT * FROM jsonb_each(job) LOOP
    kind := jsonb_typeof(value);
    given := value #>> '{}';
    IF NOT known ? field THEN
      PERFORM carillon.refuse(field, field, 'a known field: ' || (SELECT string_agg(k, ', ' ORDER BY k)
        FROM jsonb_object_keys(known) k));
    END IF;
    good := CASE
      WHEN field IN ('name', 'type', 'owner', 'queue', 'timeout') THEN kind = 'string'
      WHEN field IN ('labels', 'schedule', 'target', 'retry', 'retention') THEN kind = 'object'
      WHEN field = 'misfire' THEN kind IN ('object', 'string')
      WHEN field = 'overlap' THEN kind = 'string' AND given IN ('skip', 'queue', 'queue_all', 'replace',
        'allow')
      WHEN field = 'priority' THEN kind = 'number' AND given ~ '^[0-9]$'
      ELSE true
    END;
    IF NOT good THEN
      PERFORM carillon.refuse(field, carillon.given(value), known ->> field);
    END IF;
    IF field IN ('type', 'owner', 'queue') AND NOT carillon.is_word(given, '') AND NOT (field = 'type'
      AND given = '') THEN
      PERFORM carillon.refuse(field, given,
        '1 to 64 characters of a-z A-Z 0-9 . _ - / @, the first a letter or digit');
    END IF;
    IF field = 'name' AND (octet_length(given) > 200 OR given ~ '[[:cntrl:]]') THEN
      PERFORM carillon.refuse(field, given, '1 to 200 printable characters');
    END IF;
    IF field = 'payload' AND octet_length(value::text) > 262144 THEN
      PERFORM carillon.refuse(field, octet_length(value::text) || ' bytes',
        'at most 256 KiB of JSON; keep larger data elsewhere and pass its address');
    END IF;
    IF field = 'labels' AND (SELECT count(*) FROM jsonb_object_keys(value)) > 32 THEN
      PERFORM carillon.refuse(field, (SELECT count(*) FROM jsonb_object_keys(value)) || ' labels',
        'at most 32');
    END IF;
  END LOOP;
  PERFORM carillon.check_target(job);
END $$;

CREATE FUNCTION carillon.check_target(job jsonb) RETURNS void LANGUAGE plpgsql STABLE AS $$
DECLARE
  target CONSTANT jsonb := coalesce(job -> 'target', '{}');
  field text;
  value jsonb;
BEGIN
  FOR field, value IN SELECT * FROM jsonb_each(target) LOOP
    IF field NOT IN ('command', 'http', 'handler') THEN
      PERFORM carillon.refuse('target.' || field, field, 'a known field: command, http, handler');
    END IF;
    IF jsonb_typeof(value) <> 'object' THEN
      PERFORM carillon.refuse('target.' || field, carillon.given(value), 'an object');
    END IF;
  END LOOP;
  IF (SELECT count(*) FROM jsonb_object_keys(target)) <> 1 THEN
    PERFORM carillon.refuse('target', coalesce((SELECT string_agg(k, ' and ' ORDER BY k)
      FROM jsonb_object_keys(target) k), ''),
      'exactly one of command, http or handler');
  END IF;
  IF target ? 'handler' AND coalesce(job ->> 'type', '') = '' THEN
    PERFORM carillon.refuse('type', '', 'the type that a worker registered a handler for, e.g. email.send');
  END IF;
END $$;

-- given is how a value is shown to the caller that gave it.
CREATE FUNCTION carillon.given(value jsonb) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
  AS $$ SELECT CASE jsonb_typeof(value) WHEN 'object' THEN 'an object' WHEN 'array' THEN 'a list'
    ELSE coalesce(value #>> '{}', 'null') END $$;

-- is_word is the grammar of names; without is a character that this one must not have.
CREATE FUNCTION carillon.is_word(value text, without text) RETURNS boolean LANGUAGE sql
  IMMUTABLE PARALLEL SAFE AS $$ SELECT value ~ '^[a-zA-Z0-9][a-zA-Z0-9._/@-]{0,63}$' AND (without = ''
    OR strpos(value, without) = 0) $$;

-- submit keeps a job for the nodes, and returns its id. It makes ids as package internal/idgen does, with the
-- node number 1023, which no node has. After the clock was set back it could make an id again, so it skips
-- ids that exist.
CREATE FUNCTION carillon.submit(job jsonb, namespace text) RETURNS text
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
    INSERT INTO carillon.intake (id, shard, at, ns, body) VALUES (made, carillon.shard_of(made), now,
      namespace, job::text)
      ON CONFLICT (id) DO NOTHING;
    IF FOUND THEN
      RETURN carillon.job_text(made);
    END IF;
  END LOOP;
END $$;

CREATE FUNCTION carillon.submit(job jsonb) RETURNS text
  LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
  AS $$ SELECT carillon.submit(job, 'default') $$;

REVOKE ALL ON FUNCTION carillon.submit(jsonb), carillon.submit(jsonb, text) FROM PUBLIC;
