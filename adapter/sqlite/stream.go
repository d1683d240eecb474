package sqlite

import (
	"cmp"
	"math"

	"github.com/carillon-run/carillon"
	"zombiezen.com/go/sqlite"
)

// source is a query that yields rows in the order of FindRuns. Every source takes the filter in ?1 to ?5. Its
// last column says whether the row matches, so that a stream can count a row that does not match without
// reading it.
type source string

const runFilter = `, (?1 IS NULL OR namespace = ?1) AND (?2 IS NULL OR worker = ?2) AND (?3 = 0 OR (1 << state) & ?3) AND due >= ?4 AND due < ?5`

// Unfinished runs of all jobs, by the primary key, after (?6, ?7).
const allUnfinished source = `SELECT ` + runColumns + runFilter +
	` FROM run WHERE (due, job) > (?6, ?7) AND due < ?5 ORDER BY due, job`

// Ended runs of all jobs before ?6: by the primary key, or those of one state by history_bad.
const (
	selectEnded = `SELECT place, ` + endedColumns + runFilter
	selectBad   = selectEnded +
		` FROM history INDEXED BY history_bad WHERE state <> 4 AND place < ?6 AND state = `
	allEnded    source = selectEnded + ` FROM history WHERE place < ?6 ORDER BY place DESC`
	allFailed   source = selectBad + `5 ORDER BY place DESC`
	allCanceled source = selectBad + `6 ORDER BY place DESC`
	allSkipped  source = selectBad + `7 ORDER BY place DESC`
)

// Runs of the job ?6 before (?7, ?8): the first run of a one-off by its key, the others by run_job, ended
// runs by history_job.
const (
	jobFirst source = `SELECT ` + runColumns + runFilter + ` FROM run
WHERE due = (SELECT due FROM job WHERE id = ?6) AND job = ?6 AND extra = 0 AND due < ?7`
	jobExtra source = `SELECT ` + runColumns + runFilter + ` FROM run INDEXED BY run_job
WHERE job = ?6 AND extra = 1 AND due < ?7 ORDER BY due DESC`
	jobHistory source = selectEnded + ` FROM history INDEXED BY history_job
WHERE job = ?6 AND (due, place) < (?7, ?8) ORDER BY due DESC, place DESC`
)

// Dead letters before ?6: by the primary key, or those of the job ?7 by dead_run; one job has few enough to
// sort them.
const (
	allDead source = selectEnded + ` FROM dead WHERE place < ?6 ORDER BY place DESC`
	jobDead source = selectEnded + ` FROM dead INDEXED BY dead_run WHERE job = ?7 AND due >= ?4 AND due < ?5 AND place < ?6 ORDER BY place DESC`
)

// runStream is a source that has been read up to pos.
type runStream struct {
	reader *reader
	stmt   *sqlite.Stmt
	source source
	part   carillon.RunPart
	hot    bool // rows of the hot table, not of history or dead
	live   bool // false: at the end
	pos    carillon.RunPos
	wanted bool
}

func (r *reader) stream(q *carillon.RunQuery, from source, start carillon.RunPos) (*runStream, error) {
	stmt, err := r.conn.Prepare(string(from))
	if err != nil {
		return nil, err
	}
	bindText(stmt, 1, q.Namespace)
	bindText(stmt, 2, q.Worker)
	stmt.BindInt64(3, stateBits(q.Within()))
	stmt.BindInt64(4, int64(q.From))
	stmt.BindInt64(5, int64(cmp.Or(q.To, math.MaxInt64)))
	switch from {
	case allUnfinished:
		due, job := within(q, start)
		stmt.BindInt64(6, int64(due))
		stmt.BindInt64(7, int64(job))
	case jobFirst, jobExtra:
		stmt.BindInt64(6, int64(q.Job))
		stmt.BindInt64(7, int64(start.Due))
	case jobHistory:
		stmt.BindInt64(6, int64(q.Job))
		stmt.BindInt64(7, int64(start.Due))
		stmt.BindInt64(8, start.Place)
	case jobDead:
		stmt.BindInt64(6, start.Place)
		stmt.BindInt64(7, int64(q.Job))
	default:
		stmt.BindInt64(6, start.Place)
	}
	s := &runStream{
		reader: r, stmt: stmt, source: from, part: start.Part,
		hot: from == allUnfinished || from == jobFirst || from == jobExtra,
	}
	return s, s.next()
}

// The indexes of the columns that a stream checks before it reads a row.
const (
	runWanted   = 23
	endedWanted = 25
)

// next moves on to the next row.
func (s *runStream) next() (err error) {
	s.live, err = s.stmt.Step()
	if err != nil {
		return err
	}
	if !s.live {
		return s.stmt.Reset()
	}
	if s.hot {
		s.wanted = s.stmt.ColumnBool(runWanted)
		due := carillon.Time(s.stmt.ColumnInt64(0))
		if s.part == carillon.RunPartJob {
			s.pos = carillon.RunPos{Part: s.part, Due: due, Place: carillon.Unended}
		} else {
			s.pos = carillon.RunPos{Part: s.part, Due: due, Job: carillon.JobID(s.stmt.ColumnInt64(1))}
		}
		return nil
	}
	s.wanted = s.stmt.ColumnBool(endedWanted)
	s.pos = carillon.RunPos{Part: s.part, Place: s.stmt.ColumnInt64(0)}
	if s.part == carillon.RunPartJob {
		s.pos.Due = carillon.Time(s.stmt.ColumnInt64(3))
	}
	return nil
}

// run reads the row.
func (s *runStream) run() (carillon.Run, error) {
	if s.hot {
		run := s.reader.unfinished(s.stmt)
		return run, s.reader.fillAbout(&run)
	}
	run, _ := s.reader.ended(s.stmt, s.source == allDead || s.source == jobDead)
	return run, nil
}
