package postgres

import (
	"context"

	"github.com/carillon-run/carillon"
)

// What a statement gets of each guard.
const (
	wholeGuard = `namespace text, key text key, rev int4, value bytea, expires int8`
	itsRev     = `namespace text, key text key, rev int4`
)

// All by primary key, and as strict as the statements of runs. A guard that must not exist is inserted and
// removed like such a run, see freeRun.
var (
	insertGuard = forRows("insert_guard", wholeGuard,
		`INSERT INTO carillon.guard (namespace, key, rev, value, expires)
SELECT namespace, key, rev, value, expires FROM ROWS x`)

	updateGuard = forRows("update_guard", wholeGuard,
		`WITH hit AS (UPDATE carillon.guard g SET rev = g.rev + 1, value = x.value, expires = x.expires
  FROM ROWS x WHERE g.namespace = ANY(ARRAY[x.namespace]) AND g.key = x.key AND g.rev = x.rev
  RETURNING 1)
SELECT 1 / (count(*) = COUNT)::int FROM hit`)

	deleteGuard = forRows("delete_guard", itsRev,
		`WITH hit AS (DELETE FROM carillon.guard g USING ROWS x WHERE g.namespace = ANY(ARRAY[x.namespace])
  AND g.key = x.key AND g.rev = x.rev RETURNING 1)
SELECT 1 / (count(*) = COUNT)::int FROM hit`)

	// compareGuard locks guards that stay as they are until the commit; many commits can do so at once.
	compareGuard = forRows("compare_guard", itsRev,
		`WITH hit AS (SELECT 1 FROM ROWS x JOIN carillon.guard g
  ON g.namespace = ANY(ARRAY[x.namespace]) AND g.key = x.key AND g.rev = x.rev
  ORDER BY x.namespace COLLATE "C", x.key COLLATE "C" FOR SHARE OF g)
SELECT 1 / (count(*) = COUNT)::int FROM hit`)

	// lockGuard is for a batch that compares some guards and writes others. It locks them all in one order:
	// two batches, each of which compares what the other writes, would otherwise wait for each other until
	// the server notices after a second.
	lockGuard = forRows("lock_guard", itsRev,
		`WITH hit AS (SELECT 1 FROM ROWS x JOIN carillon.guard g
  ON g.namespace = ANY(ARRAY[x.namespace]) AND g.key = x.key AND g.rev = x.rev
  ORDER BY x.namespace COLLATE "C", x.key COLLATE "C" FOR UPDATE OF g)
SELECT 1 / (count(*) = COUNT)::int FROM hit`)

	freeGuard = forRows("free_guard", itsRev,
		`DELETE FROM carillon.guard g USING ROWS x
  WHERE g.namespace = ANY(ARRAY[x.namespace]) AND g.key = x.key AND g.rev = 0`)

	// seeGuard returns the revisions of the guards that exist.
	seeGuard = forRows("see_guard", itsRev,
		`SELECT g.namespace, g.key, g.rev FROM ROWS x JOIN carillon.guard g
  ON g.namespace = ANY(ARRAY[x.namespace]) AND g.key = x.key`)
)

func (r *rows) guard(g *carillon.Guard) {
	r.begin()
	r.text(g.Namespace)
	r.text(g.Key)
	r.int(int64(g.Rev))
	r.bytes(g.Value)
	r.intOrNull(int64(g.Expires))
}

func (r *rows) insertGuard(g *carillon.Guard) {
	placed := *g
	placed.Rev = g.NextRev()
	r.guard(&placed)
}

func (r *rows) guardRev(g carillon.GuardRev) {
	r.begin()
	r.text(g.Namespace)
	r.text(g.Key)
	r.int(int64(g.Rev))
}

// By primary key; the second reads a range of it, the third such a range of each namespace.
var (
	guardsByKey = statement{"guards_by_key", `SELECT g.* FROM unnest($2::text[]) k(key)
CROSS JOIN LATERAL (SELECT g.namespace, g.key, g.rev, g.value, g.expires FROM carillon.guard g
  WHERE g.namespace = $1::text AND g.key = k.key LIMIT 1) g`}

	guardsByPrefix = statement{"guards_by_prefix", `SELECT g.namespace, g.key, g.rev, g.value, g.expires
FROM carillon.guard g WHERE g.namespace = $1::text AND g.key >= $2::text AND starts_with(g.key, $2::text)
  AND ($3::text IS NULL OR g.key < $3::text) ORDER BY g.key`}

	guardsEverywhere = statement{"guards_everywhere", `WITH RECURSIVE spaces AS (
  (SELECT min(namespace) AS namespace FROM carillon.guard)
  UNION ALL
  SELECT (SELECT min(g.namespace) FROM carillon.guard g WHERE g.namespace > s.namespace)
    FROM spaces s WHERE s.namespace IS NOT NULL)
SELECT g.* FROM spaces s CROSS JOIN LATERAL (
  SELECT g.namespace, g.key, g.rev, g.value, g.expires FROM carillon.guard g
    WHERE g.namespace = s.namespace AND g.key >= $1::text AND starts_with(g.key, $1::text)
      AND ($2::text IS NULL OR g.key < $2::text) ORDER BY g.key) g`}
)

// Guards implements carillon.Store.
func (s *Store) Guards(ctx context.Context, q carillon.GuardQuery) (found []carillon.Guard, err error) {
	ask := call{statement: &guardsByKey, params: [][]byte{textParam(q.Namespace), textArray(q.Keys)}}
	switch {
	case len(q.Keys) > 0:
	case q.Namespace != "":
		ask = call{
			statement: &guardsByPrefix,
			params:    [][]byte{textParam(q.Namespace), textParam(q.Prefix), behind(q.Prefix)},
		}
	default:
		ask = call{statement: &guardsEverywhere, params: [][]byte{textParam(q.Prefix), behind(q.Prefix)}}
	}
	ask.row = func(r *row) error {
		found = append(found, carillon.Guard{
			Namespace: r.name(), Key: r.text(), Rev: int32(r.int()), Value: r.bytes(),
			Expires: carillon.Time(r.int()),
		})
		return nil
	}
	return found, s.read(ctx, ask)
}

// behind is the least text after all texts that begin with a prefix, if it is easy to tell; NULL: it is not.
func behind(prefix string) []byte {
	if prefix == "" || prefix[len(prefix)-1] >= 0x7e {
		return nil
	}
	b := textParam(prefix)
	b[len(b)-1]++
	return b
}
