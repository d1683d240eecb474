-- The fingerprint of a dead letter's reason. The program fills in the missing ones of older letters when it
-- opens the file: it alone can compute them.
ALTER TABLE dead ADD COLUMN fingerprint INTEGER;
CREATE INDEX dead_fingerprint ON dead (namespace, fingerprint);
CREATE INDEX dead_type        ON dead (namespace, type);
CREATE INDEX dead_missing     ON dead (ended) WHERE fingerprint IS NULL;

-- How many dead letters there are of each fingerprint and type. Triggers keep it, so that no way to write a
-- letter can forget it.
CREATE TABLE dead_group (
  namespace   TEXT    NOT NULL,
  fingerprint INTEGER NOT NULL,
  type        TEXT    NOT NULL,
  letters     INTEGER NOT NULL,
  first       INTEGER NOT NULL,
  last        INTEGER NOT NULL,
  PRIMARY KEY (namespace, fingerprint, type)
) WITHOUT ROWID;

CREATE TRIGGER dead_added AFTER INSERT ON dead WHEN NEW.fingerprint IS NOT NULL
BEGIN
  INSERT INTO dead_group VALUES (NEW.namespace, NEW.fingerprint, NEW.type, 1, NEW.ended, NEW.ended)
  ON CONFLICT (namespace, fingerprint, type) DO UPDATE SET letters = letters + 1,
    first = min(first, excluded.first), last = max(last, excluded.last);
END;

CREATE TRIGGER dead_filled AFTER UPDATE OF fingerprint ON dead
WHEN OLD.fingerprint IS NULL AND NEW.fingerprint IS NOT NULL
BEGIN
  INSERT INTO dead_group VALUES (NEW.namespace, NEW.fingerprint, NEW.type, 1, NEW.ended, NEW.ended)
  ON CONFLICT (namespace, fingerprint, type) DO UPDATE SET letters = letters + 1,
    first = min(first, excluded.first), last = max(last, excluded.last);
END;

CREATE TRIGGER dead_removed AFTER DELETE ON dead WHEN OLD.fingerprint IS NOT NULL
BEGIN
  UPDATE dead_group SET letters = letters - 1
  WHERE namespace = OLD.namespace AND fingerprint = OLD.fingerprint AND type = OLD.type;
  DELETE FROM dead_group WHERE namespace = OLD.namespace AND fingerprint = OLD.fingerprint
    AND type = OLD.type AND letters = 0;
END;
