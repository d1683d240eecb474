package postgres

import (
	"cmp"
	"context"
	"fmt"

	"github.com/carillon-run/carillon"
)

// The groups of dead letters: counted by the primary key of dead_group, their types by the same key, and the
// reason of the latest letter of each by dead_fingerprint.
var (
	deadGroups = statement{
		"dead_groups",
		`SELECT fingerprint, sum(letters)::bigint, min(first), max(last) FROM carillon.dead_group
WHERE namespace = $1::text AND ($2::text IS NULL OR type = $2::text) GROUP BY fingerprint
  HAVING sum(letters) > 0 ORDER BY 2 DESC LIMIT $3::bigint`,
	}
	groupTypes = statement{
		"group_types",
		`SELECT g.fingerprint, g.type, g.letters FROM unnest($2::bigint[]) x(fingerprint)
  CROSS JOIN LATERAL (SELECT fingerprint, type, letters FROM carillon.dead_group
  WHERE namespace = $1::text AND fingerprint = x.fingerprint OFFSET 0) g`,
	}
	groupSamples = statement{
		"group_samples",
		`SELECT x.fingerprint, d.reason FROM unnest($2::bigint[]) x(fingerprint) CROSS JOIN LATERAL (
  SELECT reason FROM carillon.dead WHERE namespace = $1::text AND fingerprint = x.fingerprint
  ORDER BY namespace DESC, fingerprint DESC, place DESC LIMIT 1) d`,
	}
)

// DeadGroups implements carillon.Store.
func (s *Store) DeadGroups(
	ctx context.Context, q carillon.DeadGroupQuery,
) (groups []carillon.DeadGroup, err error) {
	namespace := textParam(q.Namespace)
	limit := int8Param(int64(cmp.Or(q.Limit, carillon.DefaultLimit)))
	types := map[carillon.Fingerprint]map[string]int{}
	samples := map[carillon.Fingerprint]string{}
	err = s.view(ctx, func(ctx context.Context, v *view) error {
		var prints []int64
		params := [][]byte{namespace, textOrNull(q.Type), limit}
		err := v.read(ctx, call{&deadGroups, params, func(r *row) error {
			print := r.int()
			prints = append(prints, print)
			groups = append(groups, carillon.DeadGroup{
				Fingerprint: carillon.Fingerprint(print), Count: int(r.int()),
				First: carillon.Time(r.int()), Last: carillon.Time(r.int()),
			})
			return nil
		}})
		if err != nil || len(groups) == 0 {
			return err
		}
		params = [][]byte{namespace, int8Array(prints)}
		return v.read(ctx, call{&groupTypes, params, func(r *row) error {
			print, kind := carillon.Fingerprint(r.int()), r.name()
			if types[print] == nil {
				types[print] = map[string]int{}
			}
			types[print][kind] += int(r.int())
			return nil
		}}, call{&groupSamples, params, func(r *row) error {
			samples[carillon.Fingerprint(r.int())] = r.text()
			return nil
		}})
	})
	if err != nil {
		return nil, fmt.Errorf("group dead letters: %w", err)
	}
	for i := range groups {
		g := &groups[i]
		g.Types, g.Sample = carillon.FrequentTypes(types[g.Fingerprint]), samples[g.Fingerprint]
		if q.Type != "" {
			g.Types = []string{q.Type}
		}
		_, g.Error = carillon.FingerprintOf(g.Sample)
	}
	return groups, nil
}

// Letters that an older node wrote, by dead_missing.
var (
	missingPrints = statement{
		"missing_prints",
		`SELECT place, reason FROM carillon.dead WHERE fingerprint IS NULL ORDER BY place LIMIT $1::bigint`,
	}
	fillPrints = forRows("fill_prints", `place int8 key, fingerprint int8 key`,
		`UPDATE carillon.dead d SET fingerprint = coalesce(d.fingerprint, x.fingerprint) FROM ROWS x
WHERE d.place = ANY(ARRAY[x.place])`)
)

// fillPage is how many letters get their fingerprint in one transaction.
const fillPage = 1000

// fillFingerprints computes the fingerprints of the letters that have none.
func (s *Store) fillFingerprints(ctx context.Context) error {
	for {
		rows := newRows(fillPrints)
		err := s.read(ctx, call{&missingPrints, [][]byte{int8Param(fillPage)}, func(r *row) error {
			rows.begin()
			rows.int(r.int())
			print, _ := carillon.FingerprintOf(r.text())
			rows.int(int64(print))
			return nil
		}})
		if err != nil || rows.count == 0 {
			return err
		}
		err = s.with(ctx, s.writers, func(ctx context.Context, c *conn) error {
			return c.do(ctx, transaction{}, rows.call())
		})
		if err != nil && !again(err) {
			return fmt.Errorf("fill in fingerprints: %w", err)
		}
	}
}
