package sqlite

import (
	"context"
	"strings"

	"github.com/carillon-run/carillon"
	"zombiezen.com/go/sqlite"
)

// All by primary key.
const (
	insertGuard = `INSERT INTO guard (namespace, key, rev, value, expires) VALUES (?, ?, ?, ?, ?)
  ON CONFLICT DO NOTHING`
	updateGuard = `UPDATE guard SET rev = rev + 1, value = ?3, expires = ?4 WHERE namespace = ?1
  AND key = ?2 AND rev = ?5`
	deleteGuard = `DELETE FROM guard WHERE namespace = ?1 AND key = ?2 AND rev = ?3`
	seeGuard    = `SELECT rev FROM guard WHERE namespace = ?1 AND key = ?2`
)

func (w *writer) putGuard(g *carillon.Guard) (bool, error) {
	switch {
	case g.Value == nil:
		w.deleteGuard.text(1, g.Namespace)
		w.deleteGuard.text(2, g.Key)
		w.deleteGuard.int(3, int64(g.Rev))
		return w.deleteGuard.hits()
	case g.Rev == 0:
		w.insertGuard.text(1, g.Namespace)
		w.insertGuard.text(2, g.Key)
		w.insertGuard.int(3, int64(g.NextRev()))
		w.insertGuard.bytes(4, g.Value)
		w.insertGuard.intOrNull(5, int64(g.Expires))
		return w.insertGuard.hits()
	}
	w.updateGuard.text(1, g.Namespace)
	w.updateGuard.text(2, g.Key)
	w.updateGuard.bytes(3, g.Value)
	w.updateGuard.intOrNull(4, int64(g.Expires))
	w.updateGuard.int(5, int64(g.Rev))
	return w.updateGuard.hits()
}

// compare says whether guards are at their revisions, and writes nothing.
func (w *writer) compare(guards []carillon.GuardRev) (bool, error) {
	for i := range guards {
		w.seeGuard.text(1, guards[i].Namespace)
		w.seeGuard.text(2, guards[i].Key)
		if rev, err := w.seeGuard.one(); err != nil || rev != int64(guards[i].Rev) {
			return false, err
		}
	}
	return true, nil
}

// By primary key. guardsFrom reads a range of it, until a key no longer begins with the prefix. nextNamespace
// is the first one behind another.
const (
	guardByKey = `SELECT namespace, key, rev, value, expires FROM guard WHERE namespace = ? AND key = ?`
	guardsFrom = `SELECT namespace, key, rev, value, expires FROM guard WHERE namespace = ? AND key >= ?
  ORDER BY key`
	nextNamespace = `SELECT min(namespace) FROM guard WHERE namespace > ?`
)

// Guards implements carillon.Store.
func (s *Store) Guards(ctx context.Context, q carillon.GuardQuery) (found []carillon.Guard, err error) {
	err = s.read(ctx, func(r *reader) error {
		if len(q.Keys) == 0 && q.Namespace != "" {
			found, err = r.guardsFrom(found, q)
			return err
		}
		for all := len(q.Keys) == 0; all; {
			q.Namespace, err = r.nextNamespace(q.Namespace)
			if err != nil || q.Namespace == "" {
				return err
			}
			if found, err = r.guardsFrom(found, q); err != nil {
				return err
			}
		}
		for _, key := range q.Keys {
			err := r.rows(guardByKey, func(stmt *sqlite.Stmt) {
				stmt.BindText(1, q.Namespace)
				stmt.BindText(2, key)
			}, func(stmt *sqlite.Stmt) (bool, error) {
				found = append(found, r.guard(stmt))
				return true, nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	return found, err
}

// guardsFrom appends the guards of a namespace whose keys begin with a prefix.
func (r *reader) guardsFrom(found []carillon.Guard, q carillon.GuardQuery) ([]carillon.Guard, error) {
	err := r.rows(guardsFrom, func(stmt *sqlite.Stmt) {
		stmt.BindText(1, q.Namespace)
		stmt.BindText(2, q.Prefix)
	}, func(stmt *sqlite.Stmt) (bool, error) {
		g := r.guard(stmt)
		if !strings.HasPrefix(g.Key, q.Prefix) {
			return false, nil
		}
		found = append(found, g)
		return true, nil
	})
	return found, err
}

// nextNamespace is the first namespace with guards behind another; empty: there is none.
func (r *reader) nextNamespace(after string) (next string, err error) {
	err = r.rows(nextNamespace, func(stmt *sqlite.Stmt) { stmt.BindText(1, after) },
		func(stmt *sqlite.Stmt) (bool, error) {
			next = stmt.ColumnText(0)
			return true, nil
		})
	return next, err
}

func (r *reader) guard(stmt *sqlite.Stmt) carillon.Guard {
	return carillon.Guard{
		Namespace: r.name(stmt, 0), Key: stmt.ColumnText(1), Rev: stmt.ColumnInt32(2), Value: blob(stmt, 3),
		Expires: carillon.Time(stmt.ColumnInt64(4)),
	}
}
