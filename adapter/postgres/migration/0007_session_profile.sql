-- What a node or worker tells about itself when it joins, see internal/sqlcommon/profile.go.
ALTER TABLE carillon.session ADD COLUMN IF NOT EXISTS profile text NOT NULL DEFAULT '';
