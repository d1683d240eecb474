package sqlite

import (
	"cmp"
	"context"
	"fmt"
	"math"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/sqlcommon"
	"zombiezen.com/go/sqlite"
)

// FindRuns implements carillon.Store.
func (s *Store) FindRuns(ctx context.Context, q carillon.RunQuery) (page carillon.RunPage, err error) {
	start, err := q.Start()
	if err != nil {
		return page, err
	}
	err = s.read(ctx, func(r *reader) (err error) {
		page, err = sqlcommon.FindRuns(&q, start, s.maxScan,
			func(from sqlcommon.RunSource, start carillon.RunPos) (sqlcommon.RunStream, error) {
				return r.stream(&q, from, start)
			})
		return err
	})
	return page, err
}

// Every source takes the filter in ?1 to ?5. Its last column says whether the row matches, so that a stream
// can count a row that does not match without reading it.
const runFilter = `, (?1 IS NULL OR namespace = ?1) AND (?2 IS NULL OR worker = ?2)
  AND (?3 = 0 OR (1 << state) & ?3) AND due >= ?4 AND due < ?5`

// Unfinished runs of all jobs, by the primary key, after (?6, ?7).
const allUnfinished = `SELECT ` + runColumns + runFilter +
	` FROM run WHERE (due, job) > (?6, ?7) AND due < ?5 ORDER BY due, job`

// Ended runs of all jobs before ?6: by the primary key, or those of one state by history_bad. The state is
// part of the text because a search reads several states at once, and a connection has each text once.
const (
	selectEnded = `SELECT place, ` + endedColumns + runFilter
	allEnded    = selectEnded + ` FROM history WHERE place < ?6 ORDER BY place DESC`
	allBad      = selectEnded +
		` FROM history INDEXED BY history_bad WHERE state <> 4 AND place < ?6 AND state = %d
  ORDER BY place DESC`
)

// Runs of the job ?6 before (?7, ?8): the first run of a one-off by its key and the others by run_job; ended
// runs by history_job.
const (
	jobUnfinished = `SELECT ` + runColumns + runFilter + ` FROM run
WHERE due = (SELECT due FROM job WHERE id = ?6) AND job = ?6 AND extra = 0 AND due < ?7
UNION ALL SELECT ` + runColumns + runFilter + ` FROM run INDEXED BY run_job
WHERE job = ?6 AND extra = 1 AND due < ?7 ORDER BY due DESC`
	jobEnded = selectEnded + ` FROM history INDEXED BY history_job
WHERE job = ?6 AND (due, place) < (?7, ?8) ORDER BY due DESC, place DESC`
)

// Dead letters before ?6: by the primary key, or those of the job ?7 by dead_run; one job has few enough to
// sort them. Those of a namespace with the fingerprint or the type ?7 are in the order of an index.
const (
	allDead = selectEnded + ` FROM dead WHERE place < ?6 ORDER BY place DESC`
	jobDead = selectEnded + ` FROM dead INDEXED BY dead_run WHERE job = ?7 AND due >= ?4 AND due < ?5
  AND place < ?6 ORDER BY place DESC`
	deadPrinted = selectEnded + ` FROM dead INDEXED BY dead_fingerprint
WHERE namespace = ?1 AND fingerprint = ?7 AND place < ?6 ORDER BY place DESC`
	deadTyped = selectEnded + ` FROM dead INDEXED BY dead_type
WHERE namespace = ?1 AND type = ?7 AND place < ?6 ORDER BY place DESC`
)

// runStream is a sqlcommon.RunStream.
type runStream struct {
	reader *reader
	stmt   *sqlite.Stmt
	table  sqlcommon.RunTable
	part   carillon.RunPart
	pos    carillon.RunPos
	wanted bool
	labels []carillon.Label // of the jobs of dead letters
}

func (r *reader) stream(
	q *carillon.RunQuery, from sqlcommon.RunSource, start carillon.RunPos,
) (*runStream, error) {
	query, args := runsAfter(q, from, start)
	stmt, err := r.conn.Prepare(query)
	if err != nil {
		return nil, err
	}
	bindText(stmt, 1, q.Namespace)
	bindText(stmt, 2, q.Worker)
	stmt.BindInt64(3, stateBits(q.Within()))
	stmt.BindInt64(4, int64(q.From))
	stmt.BindInt64(5, int64(cmp.Or(q.To, math.MaxInt64)))
	for i, arg := range args {
		stmt.BindInt64(6+i, arg)
	}
	if from.Type != "" {
		stmt.BindText(7, from.Type)
	}
	stream := &runStream{reader: r, stmt: stmt, table: from.Table, part: start.Part}
	if from.Table == sqlcommon.TableDead {
		stream.labels = q.Labels
	}
	return stream, nil
}

// runsAfter returns the query of a source and its arguments from ?6 on.
func runsAfter(
	q *carillon.RunQuery, from sqlcommon.RunSource, start carillon.RunPos,
) (query string, args []int64) {
	switch {
	case from == sqlcommon.RunSource{Table: sqlcommon.TableRun}:
		after := sqlcommon.DueAfter(q, start)
		return allUnfinished, []int64{int64(after.Due), int64(after.Job)}
	case from.Table == sqlcommon.TableRun:
		return jobUnfinished, []int64{int64(from.Job), int64(start.Due)}
	case from.Table == sqlcommon.TableHistory && from.Job != 0:
		return jobEnded, []int64{int64(from.Job), int64(start.Due), start.Place}
	case from.Table == sqlcommon.TableHistory && from.State != 0:
		return fmt.Sprintf(allBad, from.State), []int64{start.Place}
	case from.Table == sqlcommon.TableHistory:
		return allEnded, []int64{start.Place}
	case from.Job != 0:
		return jobDead, []int64{start.Place, int64(from.Job)}
	case from.Fingerprint != 0:
		return deadPrinted, []int64{start.Place, int64(from.Fingerprint)}
	case from.Type != "":
		return deadTyped, []int64{start.Place}
	}
	return allDead, []int64{start.Place}
}

func stateBits(states []carillon.State) (bits int64) {
	for _, state := range states {
		bits |= 1 << state
	}
	return bits
}

// The indexes of the columns that a stream checks before it reads a row.
const (
	runWanted   = 26
	endedWanted = 25
)

// Next implements sqlcommon.RunStream.
func (s *runStream) Next() (bool, error) {
	live, err := s.stmt.Step()
	if err != nil {
		return false, err
	}
	if !live {
		return false, s.stmt.Reset()
	}
	if s.table == sqlcommon.TableRun {
		id := carillon.RunID{
			Due: carillon.Time(s.stmt.ColumnInt64(0)), Job: carillon.JobID(s.stmt.ColumnInt64(1)),
		}
		s.pos, s.wanted = sqlcommon.PosIn(s.part, id, carillon.Unended), s.stmt.ColumnBool(runWanted)
		return true, nil
	}
	id := carillon.RunID{Due: carillon.Time(s.stmt.ColumnInt64(3))}
	s.pos = sqlcommon.PosIn(s.part, id, s.stmt.ColumnInt64(0))
	s.wanted = s.stmt.ColumnBool(endedWanted)
	return true, nil
}

// Pos implements sqlcommon.RunStream.
func (s *runStream) Pos() carillon.RunPos { return s.pos }

// Run implements sqlcommon.RunStream.
func (s *runStream) Run() (run carillon.Run, read bool, err error) {
	if !s.wanted {
		return run, false, nil
	}
	if s.table == sqlcommon.TableRun {
		run = s.reader.unfinished(s.stmt)
		return run, true, s.reader.fillAbout(&run)
	}
	run, _ = s.reader.ended(s.stmt, s.table == sqlcommon.TableDead)
	read, err = s.reader.labeled(&run, s.labels)
	return run, read, err
}
