package mysql

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/sqlcommon"
)

// All by primary key. An update is an INSERT of a row that exists: no other fast statement takes different
// values for each row. The server counts two for a changed row, none for a row that was not as it was, and
// one for a row that did not exist.
const (
	insertGuards = "INSERT INTO guard (namespace, `key`, rev, value, expires) VALUES "
	updateGuards = "INSERT INTO guard (namespace, `key`, rev, value, expires) VALUES "
	ifGuard      = " ON DUPLICATE KEY UPDATE value = IF(rev = VALUES(rev), VALUES(value), value)," +
		" expires = IF(rev = VALUES(rev), VALUES(expires), expires), rev = rev + (rev = VALUES(rev))"
	changed = 2

	// compareGuards counts the guards that are as they were, and locks them until the commit; many commits
	// can do so at once. Like mustBe it fails with a sum that is too large.
	compareGuards = "SET @rows = 9223372036854775807 + ((SELECT count(*) FROM guard FORCE INDEX (PRIMARY)" +
		" WHERE (namespace, `key`, rev) IN (?) LOCK IN SHARE MODE) <> ?)"

	deleteGuards = "DELETE guard FROM guard FORCE INDEX (PRIMARY) WHERE (namespace, `key`, rev) IN ("
)

func (p *batch) putGuards() {
	// Sorted, so that two commits seldom deadlock. They still can if each compares a guard that the other
	// writes; the server undoes one of them at once, and it is tried again.
	for _, guards := range [][]*carillon.Guard{p.newGuards, p.guards} {
		slices.SortFunc(guards, func(a, b *carillon.Guard) int {
			return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Key, b.Key))
		})
	}
	many(&p.statements, insertGuards, p.newGuards, func(b []byte, g *carillon.Guard) []byte {
		// A guard without a value is only compared, and must not exist: see takeCompared.
		return appendSQL(
			b, `(?,?,?,?,?)`, g.Namespace, g.Key, max(g.Rev, g.First, 1), string(g.Value), or(g.Expires),
		)
	}, ``, 0)
	many(&p.statements, updateGuards, p.guards, func(b []byte, g *carillon.Guard) []byte {
		return appendSQL(b, `(?,?,?,?,?)`, g.Namespace, g.Key, g.Rev, g.Value, or(g.Expires))
	}, ifGuard, changed)
	p.compareGuards()
	p.deleteGuards(1)
}

func (p *batch) deleteGuards(hits int) {
	many(&p.statements, deleteGuards, p.gone, func(b []byte, g *carillon.Guard) []byte {
		return appendSQL(b, `(?,?,?)`, g.Namespace, g.Key, g.Rev)
	}, `)`, hits)
}

// compareGuards compares guards without writing them. Several changes can name the same guard, and each
// counts once; if they differ about its revision, the count is wrong, as it should be.
func (p *batch) compareGuards() {
	slices.SortFunc(p.compared, func(a, b *carillon.GuardRev) int {
		return cmp.Or(
			strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Key, b.Key),
			cmp.Compare(a.Rev, b.Rev),
		)
	})
	compared := slices.CompactFunc(p.compared, func(a, b *carillon.GuardRev) bool { return *a == *b })
	for some := range slices.Chunk(compared, most) {
		p.statements.add(compareGuards, list(some, func(b []byte, g *carillon.GuardRev) []byte {
			return appendSQL(b, `(?,?,?)`, g.Namespace, g.Key, g.Rev)
		}), len(some))
	}
}

// By primary key. guardsFrom and guardsUntil read a range of it. nextNamespace is the first one behind
// another.
const (
	readGuards  = "SELECT namespace, `key`, rev, value, expires FROM guard FORCE INDEX (PRIMARY) WHERE "
	guardsByKey = readGuards + "(namespace, `key`) IN (?)"
	guardsFrom  = readGuards + "namespace = ? AND `key` >= ? ORDER BY `key`"
	guardsUntil = readGuards + "namespace = ? AND `key` >= ? AND `key` < ? ORDER BY `key`"

	nextNamespace = "SELECT namespace FROM guard FORCE INDEX (PRIMARY) WHERE namespace > ?" +
		" ORDER BY namespace LIMIT 1"
)

// Guards implements carillon.Store.
func (s *Store) Guards(ctx context.Context, q carillon.GuardQuery) (found []carillon.Guard, err error) {
	take := func(r row) error {
		found = append(found, carillon.Guard{
			Namespace: r.name(0), Key: r.text(1), Rev: int32(r.int(2)), Value: r.bytes(3),
			Expires: carillon.Time(r.int(4)),
		})
		return nil
	}
	err = s.use(ctx, func(l *conn) error {
		if len(q.Keys) == 0 && q.Namespace != "" {
			return l.guardsFrom(take, q)
		}
		for all := len(q.Keys) == 0; all; {
			next := ""
			err := l.query(func(r row) error { next = r.name(0); return nil }, nextNamespace, q.Namespace)
			if q.Namespace = next; err != nil || next == "" {
				return err
			}
			if err := l.guardsFrom(take, q); err != nil {
				return err
			}
		}
		for some := range slices.Chunk(q.Keys, most) {
			keys := list(some, func(b []byte, key string) []byte {
				return appendGuardKey(b, sqlcommon.GuardKey{Namespace: q.Namespace, Key: key})
			})
			if err := l.query(take, guardsByKey, keys); err != nil {
				return err
			}
		}
		return nil
	})
	return found, tried("read guards", err)
}

// guardsFrom reads the guards of a namespace whose keys begin with a prefix.
func (l *conn) guardsFrom(take func(row) error, q carillon.GuardQuery) error {
	if end := afterAll(q.Prefix); end != "" {
		return l.query(take, guardsUntil, q.Namespace, q.Prefix, end)
	}
	return l.query(take, guardsFrom, q.Namespace, q.Prefix)
}

// afterAll returns the first text behind all texts that begin with a prefix; empty if there is none.
func afterAll(prefix string) string {
	b := []byte(prefix)
	for len(b) > 0 && b[len(b)-1] == 0xff {
		b = b[:len(b)-1]
	}
	if len(b) == 0 {
		return ""
	}
	b[len(b)-1]++
	return string(b)
}
