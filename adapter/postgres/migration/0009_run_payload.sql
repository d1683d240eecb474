-- The payload of a run that was asked for with one of its own, in place of its job's.
CREATE TABLE carillon.run_payload (
  job   bigint NOT NULL,
  due   bigint NOT NULL,
  ns    text   NOT NULL,
  value bytea  NOT NULL,
  PRIMARY KEY (job, due)
);
