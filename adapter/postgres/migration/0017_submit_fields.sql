-- carillon.submit knows the fields limits (how many runs with a key are performed at the same time) and
-- unique (a key of which there is one job at a time). Nothing else is different from 0015.

-- check_limits refuses limits of a job whose form is wrong. A node checks whether they make sense.
CREATE FUNCTION carillon.check_limits(limits jsonb) RETURNS void LANGUAGE plpgsql STABLE AS $$
DECLARE
  known CONSTANT jsonb := '{
    "key": "1 to 100 characters of a-z A-Z 0-9 . _ - / @, the first a letter or digit",
    "concurrency": "a number from 1 to 1000000",
    "rate": "a number of starts in a second, a minute or an hour, such as \"10/s\", \"100/m\" or \"5000/h\"",
    "burst": "a number from 1 to 1000000", "weight": "a number from 1 to 1000000"}';
  at text;
  one jsonb;
  field text;
  value jsonb;
  kind text;
  given text;
  good boolean;
BEGIN
  IF jsonb_array_length(limits) > 8 THEN
    PERFORM carillon.refuse('limits', jsonb_array_length(limits) || ' limits', 'at most 8');
  END IF;
  FOR i IN 0 .. jsonb_array_length(limits) - 1 LOOP
    at := 'limits[' || i || ']';
    one := limits -> i;
    IF jsonb_typeof(one) <> 'object' THEN
      PERFORM carillon.refuse(at, carillon.given(one), 'an object');
    END IF;
    IF NOT one ? 'key' THEN
      PERFORM carillon.refuse(at || '.key', '', known ->> 'key');
    END IF;
    FOR field, value IN SELECT * FROM jsonb_each(one) LOOP
      kind := jsonb_typeof(value);
      given := value #>> '{}';
      IF NOT known ? field THEN
        PERFORM carillon.refuse(at || '.' || field, field,
          'a known field: burst, concurrency, key, rate, weight');
      END IF;
      good := CASE field
        WHEN 'key' THEN kind = 'string' AND given ~ '^[a-zA-Z0-9][a-zA-Z0-9._/@-]{0,99}$'
        WHEN 'rate' THEN kind = 'string' AND given ~ '^[0-9]{1,7}/[smh]$'
        ELSE kind = 'number' AND given ~ '^[1-9][0-9]{0,6}$'
      END;
      IF NOT good THEN
        PERFORM carillon.refuse(at || '.' || field, carillon.given(value), known ->> field);
      END IF;
    END LOOP;
  END LOOP;
END $$;

-- check_unique refuses a unique key of a job whose form is wrong.
CREATE FUNCTION carillon.check_unique(uniq jsonb) RETURNS void LANGUAGE plpgsql STABLE AS $$
DECLARE
  known CONSTANT jsonb := '{
    "key": "1 to 100 characters of a-z A-Z 0-9 . _ - / @, the first a letter or digit",
    "for": "a duration such as \"90s\", \"1h30m\" or \"30d\"", "until": "ended; for a time give for",
    "on_conflict": "return, replace or refuse"}';
  field text;
  value jsonb;
  given text;
  good boolean;
BEGIN
  IF NOT uniq ? 'key' THEN
    PERFORM carillon.refuse('unique.key', '', known ->> 'key');
  END IF;
  FOR field, value IN SELECT * FROM jsonb_each(uniq) LOOP
    given := value #>> '{}';
    IF NOT known ? field THEN
      PERFORM carillon.refuse('unique.' || field, field, 'a known field: for, key, on_conflict, until');
    END IF;
    good := jsonb_typeof(value) = 'string' AND CASE field
      WHEN 'key' THEN given ~ '^[a-zA-Z0-9][a-zA-Z0-9._/@-]{0,99}$'
      WHEN 'until' THEN given = 'ended'
      WHEN 'on_conflict' THEN given IN ('return', 'replace', 'refuse')
      ELSE given <> ''
    END;
    IF NOT good THEN
      PERFORM carillon.refuse('unique.' || field, carillon.given(value), known ->> field);
    END IF;
  END LOOP;
  IF uniq ? 'for' AND uniq ? 'until' THEN
    PERFORM carillon.refuse('unique', 'for and until', 'only one of for or until; none means until ended');
  END IF;
END $$;

CREATE OR REPLACE FUNCTION carillon.check_job(job jsonb) RETURNS void LANGUAGE plpgsql STABLE AS $$
DECLARE
  known CONSTANT jsonb := '{"name": "text", "type": "text", "owner": "text", "labels": "an object of text",
    "queue": "text", "needs": "an object of text",
    "priority": "a whole number from 0 to 9, higher first",
    "fair_by": "text", "fair_weight": "a number from 1 to 100",
    "limits": "a list of objects", "unique": "an object", "payload": "any JSON",
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
      WHEN field IN ('name', 'type', 'owner', 'queue', 'fair_by', 'timeout') THEN kind = 'string'
      WHEN field IN ('labels', 'needs', 'unique', 'schedule', 'target', 'retry', 'retention')
        THEN kind = 'object'
      WHEN field = 'limits' THEN kind = 'array'
      WHEN field = 'misfire' THEN kind IN ('object', 'string')
      WHEN field = 'overlap' THEN kind = 'string' AND given IN ('skip', 'queue', 'queue_all', 'replace',
        'allow')
      WHEN field = 'priority' THEN kind = 'number' AND given ~ '^[0-9]$'
      WHEN field = 'fair_weight' THEN kind = 'number' AND given ~ '^([1-9][0-9]?|100)$'
      ELSE true
    END;
    IF NOT good THEN
      PERFORM carillon.refuse(field, carillon.given(value), known ->> field);
    END IF;
    IF field IN ('name', 'type', 'owner', 'queue', 'fair_by') AND given = '' THEN
      PERFORM carillon.refuse(field, given, 'a value that is not empty; leave the field out for its default');
    END IF;
    IF field IN ('type', 'owner', 'queue', 'fair_by') AND NOT carillon.is_word(given, '') THEN
      PERFORM carillon.refuse(field, given,
        '1 to 64 characters of a-z A-Z 0-9 . _ - / @, the first a letter or digit');
    END IF;
    IF field = 'name' AND (char_length(given) > 200 OR given ~ '[[:cntrl:]]') THEN
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
    IF field = 'needs' AND (SELECT count(*) FROM jsonb_object_keys(value)) > 8 THEN
      PERFORM carillon.refuse(field, (SELECT count(*) FROM jsonb_object_keys(value)) || ' labels',
        'at most 8');
    END IF;
  END LOOP;
  PERFORM carillon.check_limits(coalesce(job -> 'limits', '[]'));
  PERFORM carillon.check_unique(coalesce(job -> 'unique', '{"key": "none"}'));
  PERFORM carillon.check_schedule(coalesce(job -> 'schedule', '{}'));
  PERFORM carillon.check_target(job);
END $$;
