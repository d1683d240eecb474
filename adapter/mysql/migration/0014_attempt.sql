-- The record of each attempt that was not a run's first and successful one.
CREATE TABLE IF NOT EXISTS attempt (
  due       BIGINT            NOT NULL,
  job       BIGINT            NOT NULL,
  number    INT               NOT NULL,
  namespace VARBINARY(255)    NOT NULL,
  worker    VARBINARY(255)    NOT NULL,
  claimed   BIGINT            NOT NULL,
  started   BIGINT            NOT NULL,
  ended     BIGINT            NOT NULL,
  outcome   TINYINT UNSIGNED  NOT NULL,
  reason    LONGBLOB          NOT NULL,
  `exit`    TINYINT UNSIGNED  NOT NULL,
  status    SMALLINT UNSIGNED NOT NULL,
  PRIMARY KEY (due, job, number)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4;
