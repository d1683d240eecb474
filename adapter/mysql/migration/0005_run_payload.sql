-- The payload of a run that was requested with its own payload, in place of its job's.
CREATE TABLE IF NOT EXISTS run_payload (
  due   BIGINT         NOT NULL,
  job   BIGINT         NOT NULL,
  ns    VARBINARY(255) NOT NULL,
  value LONGBLOB       NOT NULL,
  PRIMARY KEY (due, job)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4;
