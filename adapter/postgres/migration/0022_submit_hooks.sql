-- check_job knows the hooks of a job: on_failure, on_success and late. A node of Carillon checks them when it
-- takes the job in. Nothing else is different from 0017.
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
    "pause_after": "a number from 1 to 1000, or 0 for none",
    "retention": "an object",
    "on_failure": "an object", "on_success": "an object", "late": "an object"}';
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
      WHEN field = 'pause_after' THEN kind = 'number' AND given ~ '^([0-9]|[1-9][0-9]{1,2}|1000)$'
      WHEN field IN ('on_failure', 'on_success', 'late') THEN kind = 'object'
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
