package sqlite

import (
	"cmp"
	"context"

	"github.com/carillon-run/carillon"
	"zombiezen.com/go/sqlite"
)

// The groups of dead letters: counted by the primary key of dead_group, each with its types, and with the
// reason of its latest letter by dead_fingerprint.
const (
	deadGroups = `SELECT fingerprint, sum(letters), min(first), max(last) FROM dead_group
WHERE namespace = ?1 AND (?2 IS NULL OR type = ?2) GROUP BY fingerprint ORDER BY 2 DESC LIMIT ?3`
	groupTypes  = `SELECT type, letters FROM dead_group WHERE namespace = ? AND fingerprint = ?`
	groupSample = `SELECT reason FROM dead INDEXED BY dead_fingerprint
WHERE namespace = ? AND fingerprint = ? ORDER BY place DESC LIMIT 1`
)

// DeadGroups implements carillon.Store.
func (s *Store) DeadGroups(
	ctx context.Context, q carillon.DeadGroupQuery,
) (groups []carillon.DeadGroup, err error) {
	err = s.read(ctx, func(r *reader) error {
		err := r.rows(deadGroups, func(stmt *sqlite.Stmt) {
			stmt.BindText(1, q.Namespace)
			bindText(stmt, 2, q.Type)
			stmt.BindInt64(3, int64(cmp.Or(q.Limit, carillon.DefaultLimit)))
		}, func(stmt *sqlite.Stmt) (bool, error) {
			groups = append(groups, carillon.DeadGroup{
				Fingerprint: carillon.Fingerprint(stmt.ColumnInt64(0)), Count: stmt.ColumnInt(1),
				First: carillon.Time(stmt.ColumnInt64(2)), Last: carillon.Time(stmt.ColumnInt64(3)),
			})
			return true, nil
		})
		for i := 0; i < len(groups) && err == nil; i++ {
			err = r.describe(&q, &groups[i])
		}
		return err
	})
	return groups, err
}

// describe adds the types and a reason to a group.
func (r *reader) describe(q *carillon.DeadGroupQuery, g *carillon.DeadGroup) error {
	bind := func(stmt *sqlite.Stmt) {
		stmt.BindText(1, q.Namespace)
		stmt.BindInt64(2, int64(g.Fingerprint))
	}
	types := map[string]int{}
	if q.Type != "" {
		types[q.Type] = g.Count
	} else if err := r.rows(groupTypes, bind, func(stmt *sqlite.Stmt) (bool, error) {
		types[stmt.ColumnText(0)] = stmt.ColumnInt(1)
		return true, nil
	}); err != nil {
		return err
	}
	g.Types = carillon.FrequentTypes(types)
	return r.rows(groupSample, bind, func(stmt *sqlite.Stmt) (bool, error) {
		g.Sample = stmt.ColumnText(0)
		_, g.Error = carillon.FingerprintOf(g.Sample)
		return true, nil
	})
}

// hasLabel is by primary key.
const hasLabel = `SELECT 1 FROM job_label WHERE namespace = ? AND key = ? AND value = ? AND job = ?`

// labeled says whether the job of a run has all labels.
func (r *reader) labeled(run *carillon.Run, labels []carillon.Label) (bool, error) {
	for _, label := range labels {
		has := false
		err := r.rows(hasLabel, func(stmt *sqlite.Stmt) {
			stmt.BindText(1, run.Namespace)
			stmt.BindText(2, label.Key)
			stmt.BindText(3, label.Value)
			stmt.BindInt64(4, int64(run.ID.Job))
		}, func(*sqlite.Stmt) (bool, error) { has = true; return false, nil })
		if err != nil || !has {
			return false, err
		}
	}
	return true, nil
}

// Letters that an older program wrote, by dead_missing.
const (
	missingPrints = `SELECT place, reason FROM dead INDEXED BY dead_missing WHERE fingerprint IS NULL LIMIT ?`
	fillPrint     = `UPDATE dead SET fingerprint = ?1 WHERE place = ?2`
)

// fillPage is how many letters get their fingerprint in one transaction.
const fillPage = 10_000

// fillFingerprints computes the fingerprints of the letters that have none.
func (s *Store) fillFingerprints() error {
	for {
		var places []int64
		var prints []carillon.Fingerprint
		err := s.read(context.Background(), func(r *reader) error {
			return r.rows(missingPrints, func(stmt *sqlite.Stmt) { stmt.BindInt64(1, fillPage) },
				func(stmt *sqlite.Stmt) (bool, error) {
					f, _ := carillon.FingerprintOf(stmt.ColumnText(1))
					places, prints = append(places, stmt.ColumnInt64(0)), append(prints, f)
					return true, nil
				})
		})
		if err != nil || len(places) == 0 {
			return err
		}
		err = s.write(func(w *writer) error {
			for i, place := range places {
				w.fillPrint.int(1, int64(prints[i]))
				w.fillPrint.int(2, place)
				if err := w.fillPrint.exec(); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
}
