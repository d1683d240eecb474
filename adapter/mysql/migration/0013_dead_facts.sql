-- The fingerprint of a dead letter's reason. Nodes fill in those of letters that older nodes wrote: the
-- database cannot compute them. bucket says in which row of dead_group the letter is counted.
SET @step = (SELECT IF(COUNT(*) = 0,
  'ALTER TABLE dead ADD fingerprint BIGINT, ADD bucket TINYINT NOT NULL DEFAULT 0,
    ADD INDEX dead_fingerprint (fingerprint, namespace, place), ADD INDEX dead_type (namespace, type, place)',
  'DO 0')
  FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'dead'
    AND COLUMN_NAME = 'fingerprint');
PREPARE step FROM @step;
EXECUTE step;
DEALLOCATE PREPARE step;

-- How many dead letters there are of each fingerprint and type. Each commit that writes or deletes letters
-- counts them (see dead.go): a trigger would need a right that most accounts do not have. Connections count
-- in different buckets: a million runs that fail with one error must not wait for one row.
CREATE TABLE IF NOT EXISTS dead_group (
  namespace   VARBINARY(255) NOT NULL,
  fingerprint BIGINT         NOT NULL,
  type        VARBINARY(255) NOT NULL,
  bucket      TINYINT        NOT NULL,
  letters     BIGINT         NOT NULL,
  first       BIGINT         NOT NULL,
  last        BIGINT         NOT NULL,
  PRIMARY KEY (namespace, fingerprint, type, bucket)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC STATS_PERSISTENT=0 DEFAULT CHARSET=utf8mb4;
