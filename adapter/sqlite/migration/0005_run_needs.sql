-- What a worker must have to perform a run: the type of a handler, or another kind of target behind a colon.
-- NULL in rows from before: not known, so that any worker may be given the run.
ALTER TABLE run ADD COLUMN needs TEXT;
