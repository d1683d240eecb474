package sqlite

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/carillon-run/carillon"
	"zombiezen.com/go/sqlite"
)

// Two streams that together hold every unfinished run, each in the order of wakes: runs that wake when they
// are due, by the primary key, and runs whose wake differs from their due time, by run_wake. The statement
// itself compares the lane, because the runs of one lane can lie behind many of another one. ?5 is NULL for
// all lanes; wakesAtDue does not use ?3.
const (
	wakesAtDue = `SELECT ` + runColumns + ` FROM run
WHERE (due, job) > (?1, ?2) AND due <= ?4 AND wake = due AND (?5 IS NULL OR queue = ?5 AND prio = ?6) ORDER BY due, job`

	wakesMoved = `SELECT ` + runColumns + ` FROM run INDEXED BY run_wake
WHERE (wake, due, job) > (?1, ?2, ?3) AND wake <= ?4 AND wake <> due AND (?5 IS NULL OR queue = ?5 AND prio = ?6) ORDER BY wake, due, job`
)

// Wakes implements carillon.Store.
func (s *Store) Wakes(ctx context.Context, q carillon.WakeQuery) (found []carillon.Run, err error) {
	if q.Shards != nil && len(q.Shards) == 0 {
		return nil, ctx.Err()
	}
	limit := cmp.Or(q.Limit, carillon.DefaultLimit)
	err = s.read(ctx, func(r *reader) error {
		atDue, err := r.wakes(wakesAtDue, &q, s.maxScan)
		if err != nil {
			return err
		}
		moved, err := r.wakes(wakesMoved, &q, s.maxScan)
		if err != nil {
			return err
		}
		for len(found) < limit && (atDue.run != nil || moved.run != nil) {
			first := atDue
			if atDue.run == nil || moved.run != nil && moved.run.WakePos().Less(atDue.run.WakePos()) {
				first = moved
			}
			if len(found) == cap(found) { // grow in few steps: most pages are full or nearly empty
				found = slices.Grow(found, min(limit-len(found), max(16*len(found), 64)))
			}
			found = append(found, *first.run)
			if first.stopped {
				break
			}
			if err := first.next(); err != nil {
				return err
			}
		}
		return nil
	})
	return found, err
}

// wakeStream is a statement that has been read up to run; run is nil at its end.
type wakeStream struct {
	reader *reader
	stmt   *sqlite.Stmt
	all    bool // all shards are wanted
	shards [carillon.Shards]bool
	full   []carillon.Lane
	held   bool
	run    *carillon.Run
	row    carillon.Run

	// passed is how many waiting runs the stream can still pass over. There is a limit because the
	// write-ahead log grows while a reader reads.
	passed  int
	stopped bool // run is the last one that was passed over
}

func (r *reader) wakes(query string, q *carillon.WakeQuery, pass int) (*wakeStream, error) {
	stmt, err := r.conn.Prepare(query)
	if err != nil {
		return nil, err
	}
	stmt.BindInt64(1, int64(q.After.Wake))
	if query == wakesAtDue {
		stmt.BindInt64(2, int64(jobAtDue(q.After)))
	} else {
		stmt.BindInt64(2, int64(q.After.ID.Due))
		stmt.BindInt64(3, int64(q.After.ID.Job))
	}
	stmt.BindInt64(4, int64(q.Until))
	if q.Lane != nil {
		stmt.BindText(5, q.Lane.Queue)
		stmt.BindInt64(6, int64(q.Lane.Priority))
	}
	w := &wakeStream{reader: r, stmt: stmt, all: q.Shards == nil, full: q.Full, held: q.Held, passed: pass}
	for _, shard := range q.Shards {
		w.shards[shard] = true
	}
	return w, w.next()
}

// jobAtDue returns the job after which, at the moment of a position, the runs that wake when they are due go
// on.
func jobAtDue(after carillon.WakePos) carillon.JobID {
	switch {
	// A run that was moved to this time comes before all runs that are due then.
	case after.ID.Due < after.Wake:
		return math.MinInt64
	// A run that was moved forward to this time comes after them.
	case after.ID.Due > after.Wake:
		return math.MaxInt64
	}
	return after.ID.Job
}

func (w *wakeStream) next() error {
	for {
		found, err := w.stmt.Step()
		if err != nil {
			return err
		}
		if !found {
			w.run = nil
			return w.stmt.Reset()
		}
		if !w.all && !w.shards[carillon.JobID(w.stmt.ColumnInt64(1)).Shard()] {
			continue
		}
		if (w.held || len(w.full) > 0) && w.passes() {
			if w.passed--; w.passed > 0 {
				continue
			}
			w.stopped = true
		}
		w.row = w.reader.unfinished(w.stmt)
		w.run = &w.row
		return nil
	}
}

// passes says whether the stream passes over the row: a waiting run of a full lane, or any waiting run if the
// query wants held runs.
func (w *wakeStream) passes() bool {
	if carillon.State(w.stmt.ColumnInt32(14)) != carillon.StateWaiting {
		return false
	}
	if w.held {
		return true
	}
	prio, queue := int8(w.stmt.ColumnInt32(15)), w.reader.name(w.stmt, 19)
	return slices.Contains(w.full, carillon.Lane{Queue: queue, Priority: prio})
}
