-- Columns that are 0 or empty in most runs are NULL then: NULL takes no room in a row, and little time to
-- write and to send. In records, covers is NULL if it is the due time. Rows from before keep their values,
-- which mean the same.
ALTER TABLE carillon.run
  ALTER claimed DROP NOT NULL, ALTER started DROP NOT NULL, ALTER retry_of DROP NOT NULL,
  ALTER seq DROP NOT NULL, ALTER attempt DROP NOT NULL, ALTER failures DROP NOT NULL,
    ALTER losses DROP NOT NULL,
  ALTER crashes DROP NOT NULL, ALTER flags DROP NOT NULL, ALTER worker DROP NOT NULL,
    ALTER reason DROP NOT NULL;
ALTER TABLE carillon.history
  ALTER covers DROP NOT NULL, ALTER until DROP NOT NULL, ALTER claimed DROP NOT NULL,
    ALTER started DROP NOT NULL,
  ALTER retry_of DROP NOT NULL, ALTER seq DROP NOT NULL, ALTER failures DROP NOT NULL,
    ALTER losses DROP NOT NULL,
  ALTER crashes DROP NOT NULL, ALTER worker DROP NOT NULL, ALTER reason DROP NOT NULL;
ALTER TABLE carillon.dead
  ALTER covers DROP NOT NULL, ALTER until DROP NOT NULL, ALTER claimed DROP NOT NULL,
    ALTER started DROP NOT NULL,
  ALTER retry_of DROP NOT NULL, ALTER seq DROP NOT NULL, ALTER failures DROP NOT NULL,
    ALTER losses DROP NOT NULL,
  ALTER crashes DROP NOT NULL, ALTER worker DROP NOT NULL, ALTER reason DROP NOT NULL;

-- A waiting run has about two thirds of the bytes of a claimed one. A page must have room for both.
ALTER TABLE carillon.run SET (fillfactor = 40);

-- Each connection takes a thousand numbers at once. So within one millisecond, places of two connections have
-- no order. Two records can get the same place if a connection has not used its numbers while a million
-- others were taken: then the database refuses the batch, and the node writes it again.
ALTER SEQUENCE carillon.place CACHE 1000;
