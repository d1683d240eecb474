package mysql

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/carillon-run/carillon"
)

// Letters that leave are locked before they are counted, by primary key: otherwise two transactions could
// both count one letter that only one of them deletes. The condition says which letters.
const (
	lockLetters = `UPDATE dead FORCE INDEX (PRIMARY) SET bucket = bucket WHERE `
	uncountDead = groupColumns + ` SELECT namespace, fingerprint, type, bucket, -COUNT(*), MIN(ended),
  MAX(ended) FROM dead FORCE INDEX (PRIMARY) WHERE fingerprint IS NOT NULL AND `
	byGroup = `) GROUP BY namespace, fingerprint, type, bucket
  ORDER BY namespace, fingerprint, type, bucket`
	groupColumns = `INSERT INTO dead_group (namespace, fingerprint, type, bucket, letters, first, last)`
	addLetters   = ` ON DUPLICATE KEY UPDATE letters = letters + VALUES(letters)`
	countDead    = groupColumns + ` VALUES `
	widen        = addLetters + `, first = LEAST(first, VALUES(first)), last = GREATEST(last, VALUES(last))`

	withKeys = `(job, due) IN (`
)

// bucket is in which row of its group a connection counts.
const bucket raw = `CONNECTION_ID() & 15`

// uncount takes letters out of their groups. which is the beginning of a condition that the items end.
func uncount[T any](s *statements, which string, items []T, item func(b []byte, item T) []byte) {
	many(s, lockLetters+which, items, item, `)`, 0)
	many(s, uncountDead+which, items, item, byGroup+addLetters, 0)
}

// deadGroup names the dead letters that are counted together.
type deadGroup struct {
	namespace string
	print     carillon.Fingerprint
	kind      string
	bucket    any
}

type deadCount struct {
	deadGroup
	letters     int64
	first, last carillon.Time
}

// count adds letters to their groups, in the order of the keys, so that two commits seldom deadlock.
func (p *batch) count(letters []*carillon.Run) {
	groups := map[deadGroup]*deadCount{}
	var counts []*deadCount
	for _, run := range letters {
		of := deadGroup{run.Namespace, printOf(run), about(run).Type, bucket}
		if groups[of] == nil {
			groups[of] = &deadCount{deadGroup: of, first: run.Ended}
			counts = append(counts, groups[of])
		}
		c := groups[of]
		c.letters++
		c.first, c.last = min(c.first, run.Ended), max(c.last, run.Ended)
	}
	putCounts(&p.statements, counts)
}

func putCounts(s *statements, counts []*deadCount) {
	slices.SortFunc(counts, func(a, b *deadCount) int {
		return cmp.Or(
			cmp.Compare(a.namespace, b.namespace), cmp.Compare(int64(a.print), int64(b.print)),
			cmp.Compare(a.kind, b.kind),
		)
	})
	many(s, countDead, counts, func(b []byte, c *deadCount) []byte {
		return appendSQL(
			b, `(?,?,?,?,?,?,?)`, c.namespace, int64(c.print), c.kind, c.bucket, c.letters, c.first, c.last,
		)
	}, widen, 0)
}

func printOf(run *carillon.Run) carillon.Fingerprint {
	print, _ := carillon.FingerprintOf(run.Reason)
	return print
}

// The groups: counted by the primary key of dead_group, their types by the same key, and the reason of the
// latest letter of each by dead_fingerprint.
const (
	deadGroups = `SELECT fingerprint, CAST(SUM(letters) AS SIGNED) n, MIN(first), MAX(last)
FROM dead_group FORCE INDEX (PRIMARY) WHERE namespace = ? AND ? AND letters <> 0
GROUP BY fingerprint HAVING n > 0 ORDER BY n DESC LIMIT ?`
	groupTypes = `SELECT fingerprint, type, CAST(SUM(letters) AS SIGNED) n FROM dead_group FORCE INDEX (PRIMARY)
WHERE namespace = ? AND fingerprint IN (?) GROUP BY fingerprint, type HAVING n > 0`
	groupSample = `(SELECT fingerprint, reason FROM dead FORCE INDEX (dead_fingerprint)
WHERE fingerprint = ? AND namespace = ? ORDER BY place DESC LIMIT 1)`
)

// DeadGroups implements carillon.Store.
func (s *Store) DeadGroups(
	ctx context.Context, q carillon.DeadGroupQuery,
) (groups []carillon.DeadGroup, err error) {
	ofType := raw(`1`)
	if q.Type != "" {
		ofType = raw(appendSQL(nil, `type = ?`, q.Type))
	}
	err = s.view(ctx, func(l *conn) error {
		groups = nil
		err := l.query(func(r row) error {
			groups = append(groups, carillon.DeadGroup{
				Fingerprint: carillon.Fingerprint(r.int(0)), Count: int(r.int(1)),
				First: carillon.Time(r.int(2)), Last: carillon.Time(r.int(3)),
			})
			return nil
		}, deadGroups, q.Namespace, ofType, cmp.Or(q.Limit, carillon.DefaultLimit))
		for some := range slices.Chunk(groups, atOnce) {
			if err == nil {
				err = l.describe(&q, some)
			}
		}
		return err
	})
	return groups, tried("group dead letters", err)
}

// describe adds the types and a reason to groups.
func (l *conn) describe(q *carillon.DeadGroupQuery, groups []carillon.DeadGroup) error {
	at := map[carillon.Fingerprint]*carillon.DeadGroup{}
	types := map[carillon.Fingerprint]map[string]int{}
	var prints []int64
	var samples []string
	for i := range groups {
		g := &groups[i]
		at[g.Fingerprint], types[g.Fingerprint] = g, map[string]int{}
		prints = append(prints, int64(g.Fingerprint))
		samples = append(samples, string(appendSQL(nil, groupSample, int64(g.Fingerprint), q.Namespace)))
	}
	err := l.query(func(r row) error {
		types[carillon.Fingerprint(r.int(0))][r.name(1)] = int(r.int(2))
		return nil
	}, groupTypes, q.Namespace, ints(prints))
	if err != nil {
		return err
	}
	for i := range groups {
		g := &groups[i]
		if g.Types = carillon.FrequentTypes(types[g.Fingerprint]); q.Type != "" {
			g.Types = []string{q.Type}
		}
	}
	return l.query(func(r row) error {
		g := at[carillon.Fingerprint(r.int(0))]
		g.Sample = r.text(1)
		_, g.Error = carillon.FingerprintOf(g.Sample)
		return nil
	}, `?`, raw(strings.Join(samples, ` UNION ALL `)))
}

// Letters that an older node wrote, by dead_fingerprint.
const (
	missingPrints = `SELECT job, due, place, reason FROM dead FORCE INDEX (dead_fingerprint)
WHERE fingerprint IS NULL LIMIT ?`
	fillPrint = `UPDATE dead FORCE INDEX (PRIMARY) SET fingerprint = ?
WHERE job = ? AND due = ? AND place = ?`
)

// Letters that are not counted as they should be: an older node deletes letters, and does not know that they
// are counted. Both tables are read as they were at one moment, so the difference is right whatever other
// nodes write meanwhile. It is added, like all other counts.
const (
	miscounted = `SELECT namespace, fingerprint, type, bucket, CAST(SUM(n) AS SIGNED) d, MIN(f), MAX(l)
FROM (
  SELECT namespace, fingerprint, type, bucket, COUNT(*) n, MIN(ended) f, MAX(ended) l FROM dead
  WHERE fingerprint IS NOT NULL GROUP BY namespace, fingerprint, type, bucket
  UNION ALL SELECT namespace, fingerprint, type, bucket, -letters, first, last FROM dead_group) x
GROUP BY namespace, fingerprint, type, bucket HAVING d <> 0`
	emptyGroups = `DELETE FROM dead_group WHERE letters = 0`
)

const (
	// fillPage is how many letters get their fingerprint in one transaction.
	fillPage = 500
	// recountEvery is how often all letters are counted: it takes about a second for a million.
	recountEvery = 24 * time.Hour
)

// tendGroups fills in missing fingerprints, and sees to it that groups are counted right. One node at a time
// does that.
func (s *Store) tendGroups(l *conn) error {
	filled, err := l.fillFingerprints()
	if err != nil || !s.forget.recount(filled > 0) {
		return err
	}
	var counts []*deadCount
	err = l.view(func(l *conn) error {
		return l.query(func(r row) error {
			counts = append(counts, &deadCount{
				deadGroup: deadGroup{r.text(0), carillon.Fingerprint(r.int(1)), r.text(2), r.int(3)},
				letters:   r.int(4), first: carillon.Time(r.int(5)), last: carillon.Time(r.int(6)),
			})
			return nil
		}, miscounted)
	})
	if err != nil {
		return err
	}
	return l.insist(func() error {
		var out statements
		out.add(beginWrite)
		putCounts(&out, counts)
		out.add(emptyGroups)
		out.add(`COMMIT`)
		if err := l.send(&out); err != nil {
			return l.end(err)
		}
		return nil
	})
}

// recount says whether it is time to count all letters: it must be, or it was long ago.
func (f *forgetter) recount(must bool) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !must && time.Since(f.counted) < recountEvery {
		return false
	}
	f.counted = time.Now()
	return true
}

// fillFingerprints computes the fingerprints of the letters that have none, and leaves it to the next count
// to count them.
func (l *conn) fillFingerprints() (filled int, err error) {
	for {
		var s statements
		n := 0
		s.add(beginWrite)
		err := l.query(func(r row) error {
			print, _ := carillon.FingerprintOf(r.text(3))
			s.add(fillPrint, int64(print), r.int(0), r.int(1), r.int(2))
			n++
			return nil
		}, missingPrints, fillPage)
		if err != nil || n == 0 {
			return filled, err
		}
		s.add(`COMMIT`)
		err = l.insist(func() error {
			if err := l.send(&s); err != nil {
				return l.end(err)
			}
			return nil
		})
		if err != nil {
			return filled, err
		}
		filled += n
	}
}
