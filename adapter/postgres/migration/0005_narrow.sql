-- What is 0 or empty in most runs is NULL, which takes no room in a row and next to no time to write and to
-- send; in records covers is NULL where it is the due time. Rows that were written before have it as it is:
-- it reads the same.
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

-- A run that waits has about two thirds of the bytes that it has when it is claimed. A page must have room
-- for both.
ALTER TABLE carillon.run SET (fillfactor = 40);

-- Each connection takes a thousand numbers at once. So in one millisecond the order of places says nothing
-- between two of them; and two records can get the same place, if one has numbers from a million ago: then
-- its batch is refused, and written again.
ALTER SEQUENCE carillon.place CACHE 1000;
