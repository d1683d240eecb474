package mysql

import (
	"context"
	"math"
	"strconv"

	"github.com/carillon-run/carillon"
)

// logDay is a partition of log: the output of the runs that were due in it. The first partition also has
// everything before it, and each partition takes over the output that belongs to earlier ones that were
// dropped.
type logDay struct {
	name     string
	from, to carillon.Time // from <= due < to
}

// Out: name and bound of each partition, in order.
const listLogDays = `SELECT PARTITION_NAME, PARTITION_DESCRIPTION FROM information_schema.PARTITIONS
WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'log' ORDER BY PARTITION_ORDINAL_POSITION`

func (l *conn) logDays() (days []logDay, err error) {
	from := carillon.Time(math.MinInt64)
	err = l.query(func(r row) error {
		d := logDay{name: r.text(0), from: from, to: carillon.Never}
		if bound := r.text(1); bound != "MAXVALUE" {
			ms, err := strconv.ParseInt(bound, 10, 64)
			if err != nil {
				return err
			}
			d.to = carillon.Time(ms)
		}
		days, from = append(days, d), d.to
		return nil
	}, listLogDays)
	return days, err
}

// addLogDays makes partitions before any run prints. If another node does the same or trims at this moment,
// that node makes them.
func (s *Store) addLogDays(ctx context.Context, now carillon.Time) error {
	if s.log.areFixed() {
		return nil
	}
	err := s.alone(ctx, "log", func(l *conn) error {
		_, err := l.planLogDays(now)
		return err
	})
	return tried("plan logs", err)
}

// bulkPieces is how many pieces are too many to be moved, because no run can print meanwhile. A piece can be
// as large as many records of history.
const bulkPieces = 10_000

// manyLaterPieces. In: how many there must be. By log_keep, which is small.
// splitLastLogDay. In: partitions. The server moves the rows of the last partition to where they belong,
// which is quick as long as there are none.
const (
	manyLaterPieces = `SELECT 1 FROM log PARTITION (later) FORCE INDEX (log_keep) LIMIT 1 OFFSET ?`
	splitLastLogDay = `ALTER TABLE log REORGANIZE PARTITION later
  INTO (? PARTITION later VALUES LESS THAN MAXVALUE)`
)

// planLogDays makes the partitions of today and of some days after it, and returns all partitions. After a
// long time in which no node made partitions, today's takes the output that belongs to the days between. If
// very many pieces came before their day was made, they stay in the last partition, and there are no further
// days until most of them have been removed piece by piece.
func (l *conn) planLogDays(now carillon.Time) ([]logDay, error) {
	days, err := l.logDays()
	if err != nil {
		return nil, err
	}
	planned, today := days[len(days)-1].from, now-now%dayLength
	var b []byte
	for end := today + dayLength; end <= today+dayLength+daysAhead; end += dayLength {
		if end > planned {
			b = appendSQL(b, oneDay, dayName(end), end)
		}
	}
	if len(b) == 0 {
		return days, nil
	}
	large, err := l.has(manyLaterPieces, l.store.bulkPieces-1)
	if err != nil || large {
		return days, err
	}
	done, err := l.change(&l.store.log, now, func() error {
		return l.exec(appendSQL(nil, splitLastLogDay, raw(b)))
	})
	if err != nil || !done {
		return days, tried("add days", err)
	}
	return l.logDays()
}
