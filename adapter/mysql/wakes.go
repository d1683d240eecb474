package mysql

import (
	"cmp"
	"context"
	"slices"

	"github.com/carillon-run/carillon"
)

// Each query reads a range of an index that has the order and the shards: the server reads no row of a shard
// that the query does not want. The position is written out, because the server would read a comparison of
// rows from the beginning of its first column.
const (
	afterWake = `(wake = ? AND due = ? AND job > ? OR wake = ? AND due > ? OR wake > ?) AND wake <= ?`

	wakesOfAll = `SELECT ` + runColumns + ` FROM run FORCE INDEX (run_wake) WHERE ` + afterWake +
		` ? ORDER BY wake, due, job LIMIT ?`
	wakesOfLane = `SELECT ` + runColumns + ` FROM run FORCE INDEX (run_lane) WHERE ` + afterWake + ` ?
  AND namespace = ? AND queue = ? AND needs = ? AND priority = ? AND (? OR share = ?)
ORDER BY wake, due, job LIMIT ?`

	// wakesHeld returns the held runs among the next runs in the order, wakesCut the last of those runs.
	// Their number is limited: a search behind millions of waiting runs could take longer than a statement is
	// allowed to. Both run in one view.
	wakesHeld = `SELECT ` + runColumns + ` FROM (SELECT ` + runColumns + ` FROM run FORCE INDEX (run_wake)
  WHERE ` + afterWake + ` ?
ORDER BY wake, due, job LIMIT ?) some WHERE state <> 1 ORDER BY wake, due, job LIMIT ?`
	wakesCut = `SELECT ` + runColumns + ` FROM run FORCE INDEX (run_wake) WHERE ` + afterWake +
		` ? ORDER BY wake, due, job LIMIT ?, 1`
)

// Wakes implements carillon.Store. It also returns runs of full lanes.
func (s *Store) Wakes(ctx context.Context, q carillon.WakeQuery) (found []carillon.Run, err error) {
	limit := cmp.Or(q.Limit, carillon.DefaultLimit)
	shards := raw(``)
	if q.Shards != nil {
		if len(q.Shards) == 0 {
			return nil, ctx.Err()
		}
		shards = `AND shard IN (` + ints(q.Shards) + `)`
	}
	if q.Held {
		err = s.view(ctx, func(l *conn) error {
			found = nil
			return s.wakesHeld(l, &q, shards, limit, &found)
		})
		return found, tried("read held runs", err)
	}
	query, args := wakesOfAll, append(after(q.After, q.Until), shards)
	if q.Lane != nil {
		query = wakesOfLane
		args = append(args, q.Lane.Namespace, q.Lane.Queue, q.Lane.Needs, q.Lane.Priority, q.AnyShare,
			q.Lane.Share)
	}
	err = s.use(ctx, func(l *conn) error { return l.query(into(&found), query, append(args, limit)...) })
	return found, tried("read wakes", err)
}

// after returns the arguments of afterWake.
func after(pos carillon.WakePos, until carillon.Time) []any {
	return []any{pos.Wake, pos.ID.Due, pos.ID.Job, pos.Wake, pos.ID.Due, pos.Wake, until}
}

func into(runs *[]carillon.Run) func(row) error {
	return func(r row) error {
		*runs = append(*runs, r.unfinished())
		return nil
	}
}

// wakesHeld reads the held runs among the next maxScan runs. If the run that it stops at is waiting, it
// returns that one too: the caller goes on from there.
func (s *Store) wakesHeld(
	l *conn, q *carillon.WakeQuery, shards raw, limit int, found *[]carillon.Run,
) error {
	for pos := q.After; ; {
		var cut []carillon.Run
		args := append(after(pos, q.Until), shards)
		if err := l.query(
			into(found), wakesHeld, append(slices.Clip(args), s.maxScan, limit-len(*found))...,
		); err != nil {
			return err
		}
		if err := l.query(into(&cut), wakesCut, append(slices.Clip(args), s.maxScan-1)...); err != nil {
			return err
		}
		switch {
		case len(cut) == 0 || len(*found) == limit:
			return nil
		case cut[0].State == carillon.StateWaiting:
			*found = append(*found, cut[0])
			return nil
		}
		pos = cut[0].WakePos()
	}
}
