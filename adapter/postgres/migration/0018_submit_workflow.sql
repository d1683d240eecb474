-- check_target knows workflows. Their nodes are checked when a node of Carillon takes the job in; a wait is a
-- target of such nodes only, and refused there.
CREATE OR REPLACE FUNCTION carillon.check_target(job jsonb) RETURNS void LANGUAGE plpgsql STABLE AS $$
DECLARE
  target CONSTANT jsonb := coalesce(job -> 'target', '{}');
  field text;
  value jsonb;
BEGIN
  FOR field, value IN SELECT * FROM jsonb_each(target) LOOP
    IF field NOT IN ('command', 'http', 'handler', 'workflow', 'wait') THEN
      PERFORM carillon.refuse('target.' || field, field,
        'a known field: command, http, handler, workflow, wait');
    END IF;
    IF jsonb_typeof(value) <> 'object' THEN
      PERFORM carillon.refuse('target.' || field, carillon.given(value), 'an object');
    END IF;
  END LOOP;
  IF target ? 'wait' OR (SELECT count(*) FROM jsonb_object_keys(target)) <> 1 THEN
    PERFORM carillon.refuse('target', coalesce((SELECT string_agg(k, ' and ' ORDER BY k)
      FROM jsonb_object_keys(target) k), ''),
      'exactly one of command, http, handler or workflow');
  END IF;
  IF target ? 'handler' AND coalesce(job ->> 'type', '') = '' THEN
    PERFORM carillon.refuse('type', '', 'the type that a worker registered a handler for, e.g. email.send');
  END IF;
END $$;
