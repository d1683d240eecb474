package postgres

import (
	"cmp"
	"context"
	"math"

	"github.com/carillon-run/carillon"
)

// runStream is a source that has been read up to after, a piece at a time.
type runStream struct {
	read  source
	after carillon.RunPos
	piece int
	found []foundRun
	ended bool
}

// foundRun is a row and its place in the order of the stream.
type foundRun struct {
	run carillon.Run
	pos carillon.RunPos
}

// source reads up to limit rows after a position. It returns fewer only at its end.
type source func(ctx context.Context, after carillon.RunPos, limit int) ([]foundRun, error)

// maxPiece bounds how much of a stream is read at once: while a search finds nothing, its pieces grow.
const maxPiece = 4000

func (s *runStream) fill(ctx context.Context) (err error) {
	if len(s.found) > 0 || s.ended {
		return nil
	}
	if s.found, err = s.read(ctx, s.after, s.piece); err != nil {
		return err
	}
	s.ended = len(s.found) < s.piece
	s.piece = min(4*s.piece, max(maxPiece, s.piece))
	return nil
}

func (s *runStream) take() foundRun {
	first := s.found[0]
	s.found, s.after = s.found[1:], first.pos
	return first
}

// unfinished reads the unfinished runs of all jobs by (due, job): a merge of the shards.
func (v *view) unfinished(q *carillon.RunQuery, start carillon.RunPos) source {
	m := merge{by: dueInShards, read: v.read, until: carillon.Time(cmp.Or(q.To, math.MaxInt64)), pos: byDue}
	if q.To != 0 {
		m.until = q.To - 1
	}
	after := carillon.RunID{Due: start.Due, Job: start.Job}
	if after.Due < q.From {
		after = carillon.RunID{Due: q.From, Job: math.MinInt64}
	}
	for _, shard := range shardsOf(nil) {
		m.add(shard, false, carillon.WakePos{ID: after})
	}
	return func(ctx context.Context, _ carillon.RunPos, limit int) (found []foundRun, err error) {
		runs, err := m.next(ctx, limit)
		for _, run := range runs {
			found = append(found, foundRun{
				run, carillon.RunPos{Part: carillon.RunPartUnfinished, Due: run.ID.Due, Job: run.ID.Job},
			})
		}
		return found, err
	}
}

func byDue(run *carillon.Run) carillon.WakePos { return carillon.WakePos{Wake: run.ID.Due, ID: run.ID} }

// Ended runs and dead letters of all jobs before a place, by the primary key; or those of one state, by
// history_bad.
var (
	allEnded = statement{
		"all_ended",
		`SELECT place, ` + endedColumns +
			` FROM carillon.history WHERE place < $1::bigint ORDER BY place DESC LIMIT $2::bigint`,
	}
	allDead = statement{
		"all_dead",
		`SELECT place, ` + endedColumns +
			` FROM carillon.dead WHERE place < $1::bigint ORDER BY place DESC LIMIT $2::bigint`,
	}
	allBad = statement{"all_bad", `SELECT place, ` + endedColumns + ` FROM carillon.history
WHERE state = $3::smallint AND state <> 4 AND place < $1::bigint ORDER BY state DESC, place DESC LIMIT $2::bigint`}
)

func (v *view) records(of *statement, dead bool) source {
	return func(ctx context.Context, after carillon.RunPos, limit int) ([]foundRun, error) {
		return v.ended(ctx, after.Part, dead, call{
			statement: of, params: [][]byte{int8Param(after.Place), int8Param(int64(limit))},
		})
	}
}

func (v *view) bad(state carillon.State) source {
	return func(ctx context.Context, after carillon.RunPos, limit int) ([]foundRun, error) {
		return v.ended(ctx, after.Part, false, call{statement: &allBad, params: [][]byte{
			int8Param(after.Place), int8Param(int64(limit)), int2Param(int(state)),
		}})
	}
}

// ended reads records with their places.
func (v *view) ended(
	ctx context.Context, part carillon.RunPart, dead bool, ask call,
) (found []foundRun, err error) {
	ask.row = func(r *row) error {
		run, place := r.ended(dead)
		pos := carillon.RunPos{Part: part, Place: place}
		if part == carillon.RunPartJob {
			pos.Due = run.ID.Due
		}
		found = append(found, foundRun{run, pos})
		return nil
	}
	return found, v.read(ctx, ask)
}

// Runs of one job before (due, place), latest first: the run of a one-off by its key and the others by
// run_job, the ended by history_job, the dead letters by dead_run. All but the ended are few enough to be
// sorted.
var (
	jobUnfinished = statement{"job_unfinished", `SELECT * FROM (
  SELECT r.* FROM carillon.job j CROSS JOIN LATERAL (
    SELECT ` + runColumns + ` FROM carillon.run r WHERE r.shard = $2::smallint AND r.due = j.due AND r.job = j.id AND NOT r.extra OFFSET 0) r
  WHERE j.id = $1::bigint
  UNION ALL
  SELECT ` + runColumns + ` FROM carillon.run r WHERE r.job = $1::bigint AND r.extra) r
WHERE r.due < $3::bigint ORDER BY r.due DESC LIMIT $4::bigint`}

	jobHistory = statement{"job_history", `SELECT place, ` + endedColumns + ` FROM carillon.history
WHERE job = $1::bigint AND due <= $2::bigint AND (due, place) < ($2::bigint, $3::bigint) ORDER BY job DESC, due DESC, place DESC LIMIT $4::bigint`}

	jobDead = statement{"job_dead", `SELECT place, ` + endedColumns + ` FROM carillon.dead
WHERE job = $1::bigint AND place < $2::bigint ORDER BY place DESC LIMIT $3::bigint`}
)

func (v *view) jobUnfinished(q *carillon.RunQuery) source {
	return func(ctx context.Context, after carillon.RunPos, limit int) (found []foundRun, err error) {
		ask := call{statement: &jobUnfinished, params: [][]byte{
			int8Param(int64(q.Job)), int2Param(q.Job.Shard()), int8Param(int64(after.Due)),
			int8Param(int64(limit)),
		}}
		ask.row = func(r *row) error {
			run := r.unfinished()
			found = append(found, foundRun{
				run, carillon.RunPos{Part: carillon.RunPartJob, Due: run.ID.Due, Place: carillon.Unended},
			})
			return nil
		}
		return found, v.read(ctx, ask)
	}
}

func (v *view) jobHistory(q *carillon.RunQuery) source {
	return func(ctx context.Context, after carillon.RunPos, limit int) ([]foundRun, error) {
		return v.ended(ctx, after.Part, false, call{statement: &jobHistory, params: [][]byte{
			int8Param(int64(q.Job)), int8Param(int64(after.Due)), int8Param(after.Place),
			int8Param(int64(limit)),
		}})
	}
}

func (v *view) jobDead(q *carillon.RunQuery) source {
	return func(ctx context.Context, after carillon.RunPos, limit int) ([]foundRun, error) {
		return v.ended(ctx, after.Part, true, call{statement: &jobDead, params: [][]byte{
			int8Param(int64(q.Job)), int8Param(after.Place), int8Param(int64(limit)),
		}})
	}
}
