-- What is 0 or empty in most runs is NULL, which takes no room in a row and next to no time to write and to send; covers is NULL
-- where it is the due time. Rows that were written before have it as it is: it reads the same.
ALTER TABLE carillon.run
  ALTER covers DROP NOT NULL, ALTER claimed DROP NOT NULL, ALTER started DROP NOT NULL, ALTER retry_of DROP NOT NULL,
  ALTER seq DROP NOT NULL, ALTER attempt DROP NOT NULL, ALTER failures DROP NOT NULL, ALTER losses DROP NOT NULL,
  ALTER crashes DROP NOT NULL, ALTER flags DROP NOT NULL, ALTER worker DROP NOT NULL, ALTER reason DROP NOT NULL;
ALTER TABLE carillon.history
  ALTER covers DROP NOT NULL, ALTER until DROP NOT NULL, ALTER claimed DROP NOT NULL, ALTER started DROP NOT NULL,
  ALTER retry_of DROP NOT NULL, ALTER seq DROP NOT NULL, ALTER failures DROP NOT NULL, ALTER losses DROP NOT NULL,
  ALTER crashes DROP NOT NULL, ALTER worker DROP NOT NULL, ALTER reason DROP NOT NULL;
ALTER TABLE carillon.dead
  ALTER covers DROP NOT NULL, ALTER until DROP NOT NULL, ALTER claimed DROP NOT NULL, ALTER started DROP NOT NULL,
  ALTER retry_of DROP NOT NULL, ALTER seq DROP NOT NULL, ALTER failures DROP NOT NULL, ALTER losses DROP NOT NULL,
  ALTER crashes DROP NOT NULL, ALTER worker DROP NOT NULL, ALTER reason DROP NOT NULL;

-- A run is written with less than half of what it has when it is claimed; a page must have room for that.
ALTER TABLE carillon.run SET (fillfactor = 40);

-- Numbers that a session takes at once. Two of the same in one millisecond, a million apart, refuse a batch, which is written again.
ALTER SEQUENCE carillon.place CACHE 1000;
