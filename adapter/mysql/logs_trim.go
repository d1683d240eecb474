package mysql

import (
	"cmp"
	"context"
	"time"

	"github.com/carillon-run/carillon"
)

// Trim drops the partitions in which no piece has to be kept any more: this costs the same for a day with a
// million pieces as for one with few. So that most days end that way, Trim is patient with expired pieces
// while the rest of their day is not expired: such pieces can stay twice as long as they are kept, but not
// more than trimPatience longer. Trim also makes the partitions of the next days.
//
// One node at a time trims; other nodes have nothing to do meanwhile.
func (logs *Logs) Trim(ctx context.Context, now carillon.Time, keep time.Duration) error {
	err := logs.store.alone(ctx, "log", func(l *conn) error {
		days, err := l.planLogDays(now)
		if err != nil {
			return err
		}
		t := logTrim{l, now, keep}
		for _, d := range days {
			if err := t.day(d); err != nil {
				return tried("partition "+d.name, err)
			}
		}
		return nil
	})
	return tried("trim logs", err)
}

// trimPatience is a day, until the last output of the day has expired too, and half a day for runs that go on
// after midnight.
const trimPatience = 36 * time.Hour

type logTrim struct {
	*conn
	now  carillon.Time
	keep time.Duration
}

// logClass is the output of the runs of one day that is kept equally long.
type logClass struct {
	keep        int64         // as stored
	first, last carillon.Time // written
}

func (t logTrim) day(d logDay) error {
	classes, err := t.classes(d)
	if err != nil {
		return err
	}
	if d.to <= t.now && t.over(classes) {
		if err := t.drop(d); err != nil || !t.store.log.areFixed() {
			return err
		}
	}
	for _, c := range classes {
		patience := min(t.keepOf(c), trimPatience)
		if before := t.before(c); c.last < before || c.first < before.Add(-patience) {
			if err := t.delete(d, c.keep, before); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t logTrim) keepOf(c logClass) time.Duration {
	return cmp.Or(time.Duration(c.keep)*time.Millisecond, t.keep)
}

// before returns the time before which expired pieces were written.
func (t logTrim) before(c logClass) carillon.Time { return t.now.Add(-t.keepOf(c)) }

// over says that all pieces of the classes have expired.
func (t logTrim) over(classes []logClass) bool {
	for _, c := range classes {
		if c.last >= t.before(c) {
			return false
		}
	}
	return true
}

// nextLogClass. In: partition, keep. Out: the next larger keep, and when its first piece was written.
// lastInClass. In: partition, keep. Out: when its last piece was written.
// Each reads one entry of log_keep. A GROUP BY for all classes can read the whole index, depending on the
// statistics.
const (
	nextLogClass = `SELECT keep, written FROM log PARTITION (?) FORCE INDEX (log_keep) WHERE keep > ?
  ORDER BY keep, written LIMIT 1`
	lastInClass = `SELECT written FROM log PARTITION (?) FORCE INDEX (log_keep) WHERE keep = ?
  ORDER BY written DESC LIMIT 1`
)

func (t logTrim) classes(d logDay) (classes []logClass, err error) {
	for keep := int64(-1); ; {
		c, found, err := t.classAfter(d, keep)
		if err != nil || !found {
			return classes, err
		}
		classes, keep = append(classes, c), c.keep
	}
}

func (t logTrim) classAfter(d logDay, keep int64) (c logClass, found bool, err error) {
	err = t.query(func(r row) error {
		c, found = logClass{keep: r.int(0), first: carillon.Time(r.int(1))}, true
		return nil
	}, nextLogClass, raw(d.name), keep)
	if err == nil && found {
		err = t.query(
			func(r row) error { c.last = carillon.Time(r.int(0)); return nil }, lastInClass, raw(d.name),
			c.keep,
		)
	}
	return c, found, err
}

// In: partition.
const (
	lockLog    = `LOCK TABLES log WRITE`
	dropLogDay = `ALTER TABLE log DROP PARTITION ?`
	unlockLog  = `UNLOCK TABLES`
)

// drop checks again while no other call can use the table: a run that is late by days may have printed
// something just now.
func (t logTrim) drop(d logDay) error {
	_, err := t.change(&t.store.log, t.now, func() error { return t.dropAlone(d) })
	return err
}

func (t logTrim) dropAlone(d logDay) error {
	if err := t.exec([]byte(lockLog)); err != nil {
		return err
	}
	classes, err := t.classes(d)
	if err == nil && t.over(classes) {
		err = t.exec(appendSQL(nil, dropLogDay, raw(d.name)))
	}
	if unlocked := t.exec([]byte(unlockLog)); err == nil {
		err = unlocked
	}
	return err
}

// In: partition, keep, before when, how many. By log_keep.
const deletePieces = `DELETE FROM log PARTITION (?) WHERE keep = ? AND written < ? LIMIT ?`

// delete removes some pieces at a time, so that no other call waits long for its locks.
func (t logTrim) delete(d logDay, keep int64, before carillon.Time) error {
	for {
		n, err := t.do(deletePieces, raw(d.name), keep, before, most)
		if err != nil || n < most {
			return err
		}
	}
}
