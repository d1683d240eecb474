package mysql

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/sqlcommon"
)

const (
	dayLength = carillon.Time(24 * time.Hour / time.Millisecond)
	daysAhead = 3 * dayLength
	// straggle is how long after the end of a day a record of it can still be written.
	straggle = carillon.Time(time.Hour / time.Millisecond)
	// bulk is how many records make a day so large that it is dropped as a whole. Smaller days are removed
	// record by record, each when its time has come.
	bulk = 100_000
)

// day is a partition of history: the records that ended between two times, the second one excluded.
type day struct {
	name     string
	from, to carillon.Time
}

const listDays = `SELECT PARTITION_NAME, PARTITION_DESCRIPTION FROM information_schema.PARTITIONS
WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'history' AND PARTITION_DESCRIPTION <> 'MAXVALUE'`

// days returns the partitions that have an end, earliest first.
func (l *conn) days() (all []day, err error) {
	err = l.query(func(r row) error {
		to, err := strconv.ParseInt(r.text(1), 10, 64)
		all = append(all, day{name: r.text(0), to: carillon.Time(to)})
		return err
	}, listDays)
	slices.SortFunc(all, func(a, b day) int { return int(a.to - b.to) })
	for i := 1; i < len(all); i++ {
		all[i].from = all[i-1].to
	}
	return all, err
}

// splitLast and dropDay run inside change, because other calls wait for them.
const (
	splitLast = `ALTER TABLE history REORGANIZE PARTITION later
  INTO (? PARTITION later VALUES LESS THAN MAXVALUE)`
	oneDay  = `PARTITION ? VALUES LESS THAN (?),`
	dropDay = `ALTER TABLE history DROP PARTITION ?`
)

// addDays makes partitions ahead of time. If a partition was not made in time, the last one takes the
// records, so that no commit fails, and addDays moves them from there. Moving very many would stop all
// commits for long: then they stay, history gets no further days, and records are removed one by one.
func (s *Store) addDays(ctx context.Context, now carillon.Time) error {
	s.forget.mu.Lock()
	enough := now+daysAhead/2 < s.forget.ahead
	s.forget.mu.Unlock()
	if enough || s.history.areFixed() || s.history.wait(now) {
		return nil
	}
	err := s.alone(ctx, "partitions", func(l *conn) error {
		all, err := l.days()
		if err != nil {
			return err
		}
		large, err := l.has(manyOfDay, raw(`later`), s.bulk-1)
		if err != nil {
			return err
		}
		days, last := newDays(all, now)
		done := true
		if len(days) > 0 && !large {
			done, err = l.change(&s.history, now, func() error {
				return l.exec(appendSQL(nil, splitLast, days))
			})
		}
		if done {
			s.forget.mu.Lock()
			s.forget.ahead = last
			s.forget.mu.Unlock()
		}
		return err
	})
	return tried("add days to history", err)
}

// newDays writes the days that are still to be made, and returns the end of the last day of all. Everything
// older than today goes into one partition.
func newDays(all []day, now carillon.Time) (days raw, last carillon.Time) {
	today := now - now%dayLength
	if len(all) > 0 {
		last = all[len(all)-1].to
	}
	var b []byte
	if last < today {
		b = appendSQL(b, oneDay, dayName(today), today)
		last = today
	}
	for last < today+daysAhead {
		last += dayLength
		b = appendSQL(b, oneDay, dayName(last), last)
	}
	return raw(b), last
}

// dayName names a day by its end.
func dayName(to carillon.Time) raw { return raw("until_" + to.Std().Format("20060102")) }

// Queries on one partition: whether it has a record, many records, or a record that must stay.
const (
	anyOfDay   = `SELECT 1 FROM history PARTITION (?) LIMIT 1`
	manyOfDay  = `SELECT 1 FROM history PARTITION (?) LIMIT 1 OFFSET ?`
	keptOfDay  = `SELECT 1 FROM history PARTITION (?) FORCE INDEX (history_expires) WHERE expires > ? LIMIT 1`
	afterOfDay = `SELECT place, job, due, ended FROM history PARTITION (?) FORCE INDEX (PRIMARY)
  WHERE place > ? ORDER BY place LIMIT ?`
)

// forgetDays drops the earliest days if all their records can go. It returns the time up to which the other
// records are to be forgotten one by one: a large day that the rule has reached waits until the rule covers
// all of it, and until no other call uses the table.
func (s *Store) forgetDays(
	l *conn, until, now carillon.Time, limit int,
) (forgotten int, rest carillon.Time, err error) {
	all, err := l.days()
	if err != nil {
		return 0, 0, err
	}
	for _, d := range all {
		if d.from > until {
			break
		}
		whole := d.to+straggle <= until
		large, err := l.has(manyOfDay, raw(d.name), s.bulk-1)
		if err != nil {
			return 0, 0, err
		}
		if large && !whole {
			return 0, d.from - 1, nil
		}
		if !whole {
			break
		}
		if forgotten, err = s.forgetDay(l, d, large, now, limit); forgotten > 0 || err != nil {
			return forgotten, 0, err
		}
		if large && s.history.wait(now) {
			return 0, d.from - 1, nil
		}
	}
	return 0, until, nil
}

// forgetDay goes through a large day, limit records at a time, to remove the rows that only these records
// needed. Then it drops the day. An empty day is dropped at once.
func (s *Store) forgetDay(
	l *conn, d day, large bool, now carillon.Time, limit int,
) (forgotten int, err error) {
	stays, query, args := false, anyOfDay, []any{raw(d.name)}
	if large {
		query, args = keptOfDay, append(args, now)
	}
	if stays, err = l.has(query, args...); stays || err != nil {
		return 0, err
	}
	if !large {
		return 0, s.dropDay(l, d, now)
	}
	s.forget.mu.Lock()
	defer s.forget.mu.Unlock()
	if s.forget.day != d.name {
		s.forget.day, s.forget.passed = d.name, 0
	}
	var found []sqlcommon.Past
	err = l.query(
		func(r row) error { found = append(found, pastOf(r, false)); return nil }, afterOfDay, raw(d.name),
		s.forget.passed, limit,
	)
	if err != nil {
		return 0, err
	}
	if len(found) > 0 {
		still := raw(appendSQL(nil, `(h.ended < ? OR h.ended >= ?)`, d.from, d.to))
		if err := l.insist(func() error { return l.cleanAlone(found, still) }); err != nil {
			return 0, err
		}
		s.forget.passed = found[len(found)-1].Place
	}
	if len(found) == limit {
		return limit, nil
	}
	return len(found), s.dropDay(l, d, now)
}

func (s *Store) dropDay(l *conn, d day, now carillon.Time) error {
	_, err := l.change(&s.history, now, func() error { return l.exec(appendSQL(nil, dropDay, raw(d.name))) })
	return tried("drop "+d.name, err)
}

func (l *conn) cleanAlone(found []sqlcommon.Past, still raw) error {
	if err := l.exec([]byte(beginWrite)); err != nil {
		return err
	}
	if err := l.clean(found, still); err != nil {
		return l.end(err)
	}
	return l.exec([]byte(`COMMIT`))
}

// has says whether a query finds anything.
func (l *conn) has(query string, args ...any) (found bool, err error) {
	err = l.query(func(row) error { found = true; return nil }, query, args...)
	return found, err
}
