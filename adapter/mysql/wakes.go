package mysql

import (
	"cmp"
	"context"

	"github.com/carillon-run/carillon"
)

// A stretch of an index that has the order, and the shards in it: no row is read that is not of a shard that is asked
// for. The position is written out because a comparison of rows would be read from the beginning of its first column.
const (
	afterWake = `(wake = ? AND due = ? AND job > ? OR wake = ? AND due > ? OR wake > ?) AND wake <= ?`

	wakesOfAll  = `SELECT ` + runColumns + ` FROM run FORCE INDEX (run_wake) WHERE ` + afterWake + ` ? ORDER BY wake, due, job LIMIT ?`
	wakesOfLane = `SELECT ` + runColumns + ` FROM run FORCE INDEX (run_lane) WHERE ` + afterWake + ` ? AND queue = ? AND prio = ?
ORDER BY wake, due, job LIMIT ?`
)

// Wakes implements carillon.Store. Lanes that are full come too: to look for what is behind millions of their runs could take
// longer than a statement may.
func (s *Store) Wakes(ctx context.Context, q carillon.WakeQuery) (found []carillon.Run, err error) {
	limit := cmp.Or(q.Limit, carillon.DefaultLimit)
	shards := raw(``)
	if q.Shards != nil {
		if len(q.Shards) == 0 {
			return nil, ctx.Err()
		}
		shards = `AND shard IN (` + ints(q.Shards) + `)`
	}
	wake, due, job := q.After.Wake, q.After.ID.Due, q.After.ID.Job
	args := []any{wake, due, job, wake, due, wake, q.Until, shards}
	query := wakesOfAll
	if q.Lane != nil {
		query = wakesOfLane
		args = append(args, q.Lane.Queue, q.Lane.Priority)
	}
	err = s.use(ctx, func(l *link) error {
		return l.query(func(r row) error {
			found = append(found, r.unfinished())
			return nil
		}, query, append(args, limit)...)
	})
	return found, tried("read wakes", err)
}
