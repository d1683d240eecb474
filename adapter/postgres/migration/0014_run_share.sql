-- The share of its queue that a run belongs to: a key, and behind a star its weight. NULL: none.
ALTER TABLE carillon.run ADD COLUMN IF NOT EXISTS share text;
