-- The record of each attempt that was not a run's first and successful one.
CREATE TABLE carillon.attempt (
  job       bigint   NOT NULL,
  due       bigint   NOT NULL,
  number    integer  NOT NULL,
  namespace text     NOT NULL,
  worker    text     NOT NULL,
  claimed   bigint   NOT NULL,
  started   bigint   NOT NULL,
  ended     bigint   NOT NULL,
  outcome   smallint NOT NULL,
  reason    text     NOT NULL,
  exit      smallint NOT NULL,
  status    integer  NOT NULL,
  PRIMARY KEY (job, due, number)
);
