package sqlite

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/carillon-run/carillon"
	"zombiezen.com/go/sqlite"
)

// wakeOrder is the statements of a stream of unfinished runs in the order of wakes. A position is ?1 to ?3 (a
// stream by due time does not use ?3), and the stream goes up to ?4.
type wakeOrder struct {
	// all compares the lane itself, because the runs of one lane can lie behind many of another one. ?5 is
	// NULL for all lanes, ?9 for all shares.
	all string
	// held reads held runs up to the position (?4, ?5, ?6), and the run at that position whatever its state
	// is. SQLite passes over waiting runs in a quarter of the time that it takes to return them.
	held string
	// cut returns the position ?5 runs further on.
	cut string
}

// Two streams together hold every unfinished run: runs that wake when they are due, by the primary key, and
// runs whose wake differs from their due time, by run_wake.
var (
	atDue = wakeOrder{
		all: `SELECT ` + runColumns + ` FROM run
WHERE (due, job) > (?1, ?2) AND due <= ?4 AND wake = due AND (?5 IS NULL OR queue = ?5 AND priority = ?6
  AND namespace = ?7 AND coalesce(needs, '') = ?8 AND (?9 IS NULL OR coalesce(share, '') = ?9))
  ORDER BY due, job`,
		held: `SELECT ` + runColumns + ` FROM run
WHERE (due, job) > (?1, ?2) AND due <= ?4 AND wake = due
  AND (state <> 1 AND (due < ?4 OR job <= ?6) OR due = ?4 AND job = ?6) ORDER BY due, job`,
		cut: `SELECT due, due, job FROM run
WHERE (due, job) > (?1, ?2) AND due <= ?4 AND wake = due ORDER BY due, job LIMIT 1 OFFSET ?5`,
	}
	moved = wakeOrder{
		all: `SELECT ` + runColumns + ` FROM run INDEXED BY run_wake
WHERE (wake, due, job) > (?1, ?2, ?3) AND wake <= ?4 AND wake <> due AND (?5 IS NULL OR queue = ?5
  AND priority = ?6 AND namespace = ?7 AND coalesce(needs, '') = ?8
  AND (?9 IS NULL OR coalesce(share, '') = ?9)) ORDER BY wake, due, job`,
		held: `SELECT ` + runColumns + ` FROM run INDEXED BY run_wake
WHERE (wake, due, job) > (?1, ?2, ?3) AND wake <= ?4 AND wake <> due
  AND (state <> 1 AND (wake, due, job) <= (?4, ?5, ?6) OR wake = ?4 AND due = ?5 AND job = ?6)
  ORDER BY wake, due, job`,
		cut: `SELECT wake, due, job FROM run INDEXED BY run_wake
WHERE (wake, due, job) > (?1, ?2, ?3) AND wake <= ?4 AND wake <> due ORDER BY wake, due, job
  LIMIT 1 OFFSET ?5`,
	}
)

// Wakes implements carillon.Store.
func (s *Store) Wakes(ctx context.Context, q carillon.WakeQuery) (found []carillon.Run, err error) {
	if q.Shards != nil && len(q.Shards) == 0 {
		return nil, ctx.Err()
	}
	limit := cmp.Or(q.Limit, carillon.DefaultLimit)
	err = s.read(ctx, func(r *reader) error {
		one, err := r.wakes(&atDue, &q, s.maxScan)
		if err != nil {
			return err
		}
		other, err := r.wakes(&moved, &q, s.maxScan)
		if err != nil {
			return err
		}
		for len(found) < limit && (one.run != nil || other.run != nil) {
			first := one
			if one.run == nil || other.run != nil && other.run.WakePos().Less(one.run.WakePos()) {
				first = other
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
	order  *wakeOrder
	query  *carillon.WakeQuery
	stmt   *sqlite.Stmt
	shards [carillon.Shards]bool
	run    *carillon.Run
	row    carillon.Run

	// pass is how many waiting runs the stream can still pass over; for held runs, how many runs it reads at
	// a time. There is a limit because the write-ahead log grows while a reader reads.
	pass    int
	cut     *carillon.WakePos // where a stream of held runs stops; nil: at its end
	stopped bool              // run is the last one that was passed over
}

func (r *reader) wakes(order *wakeOrder, q *carillon.WakeQuery, pass int) (w *wakeStream, err error) {
	w = &wakeStream{reader: r, order: order, query: q, pass: pass}
	for _, shard := range q.Shards {
		w.shards[shard] = true
	}
	if q.Held {
		if err := w.holdFrom(q.After); err != nil {
			return nil, err
		}
		return w, w.next()
	}
	if w.stmt, err = w.from(order.all, q.After); err != nil {
		return nil, err
	}
	if q.Lane != nil {
		w.stmt.BindText(5, q.Lane.Queue)
		w.stmt.BindInt64(6, int64(q.Lane.Priority))
		w.stmt.BindText(7, q.Lane.Namespace)
		w.stmt.BindText(8, q.Lane.Needs)
		if !q.AnyShare {
			w.stmt.BindText(9, q.Lane.Share)
		}
	}
	return w, w.next()
}

// from prepares a statement of the order that begins after a position.
func (w *wakeStream) from(query string, after carillon.WakePos) (*sqlite.Stmt, error) {
	stmt, err := w.reader.conn.Prepare(query)
	if err != nil {
		return nil, err
	}
	stmt.BindInt64(1, int64(after.Wake))
	if w.order == &atDue {
		stmt.BindInt64(2, int64(jobAtDue(after)))
	} else {
		stmt.BindInt64(2, int64(after.ID.Due))
		stmt.BindInt64(3, int64(after.ID.Job))
	}
	stmt.BindInt64(4, int64(w.query.Until))
	return stmt, nil
}

// holdFrom has the stream read the held runs among the next runs after a position.
func (w *wakeStream) holdFrom(after carillon.WakePos) error {
	stmt, err := w.from(w.order.cut, after)
	if err != nil {
		return err
	}
	stmt.BindInt64(5, int64(w.pass-1))
	found, err := stmt.Step()
	if err != nil {
		return err
	}
	w.cut = nil
	if found {
		w.cut = &carillon.WakePos{
			Wake: carillon.Time(stmt.ColumnInt64(0)),
			ID: carillon.RunID{
				Due: carillon.Time(stmt.ColumnInt64(1)), Job: carillon.JobID(stmt.ColumnInt64(2)),
			},
		}
	}
	if err := stmt.Reset(); err != nil {
		return err
	}
	if w.stmt, err = w.from(w.order.held, after); err != nil {
		return err
	}
	end := carillon.WakePos{Wake: w.query.Until, ID: carillon.RunID{Due: math.MaxInt64, Job: math.MaxInt64}}
	if w.cut != nil {
		end = *w.cut
	}
	w.stmt.BindInt64(4, int64(end.Wake))
	w.stmt.BindInt64(5, int64(end.ID.Due))
	w.stmt.BindInt64(6, int64(end.ID.Job))
	return nil
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
			if err := w.stmt.Reset(); err != nil {
				return err
			}
			// The run at the cut was held, or of another shard, or has ended since.
			if w.cut != nil {
				if err := w.holdFrom(*w.cut); err != nil {
					return err
				}
				continue
			}
			w.run = nil
			return nil
		}
		if w.query.Shards != nil && !w.shards[carillon.JobID(w.stmt.ColumnInt64(1)).Shard()] {
			continue
		}
		if w.passes() {
			// Among held runs, the only waiting one is the cut.
			if w.pass--; w.pass > 0 && !w.query.Held {
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
	if !w.query.Held && len(w.query.Full) == 0 {
		return false
	}
	if carillon.State(w.stmt.ColumnInt32(14)) != carillon.StateWaiting {
		return false
	}
	if w.query.Held {
		return true
	}
	return slices.Contains(w.query.Full, carillon.Lane{
		Namespace: w.reader.name(w.stmt, 18), Queue: w.reader.name(w.stmt, 19),
		Needs: w.reader.name(w.stmt, 22), Share: w.reader.name(w.stmt, 23),
		Priority: int8(w.stmt.ColumnInt32(15)),
	})
}
