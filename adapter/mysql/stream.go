package mysql

import (
	"cmp"
	"math"

	"github.com/carillon-run/carillon"
)

// source is a query that yields rows in the order of FindRuns. Its last column says whether the row is
// wanted: a row that is not wanted is only counted.
type source struct {
	query string
	hot   bool           // rows of the hot table, not of history or dead
	dead  bool           // rows of dead
	state carillon.State // the only one it yields; 0: all
}

const selectEnded = `SELECT place, ` + endedColumns + `, ? `

// Runs of all jobs: unfinished runs by primary key, ended runs by primary key or those of one state by
// history_state, and the dead letters by dead_pos.
var (
	allUnfinished = source{hot: true, query: `SELECT ` + runColumns + `, ? FROM run FORCE INDEX (PRIMARY)
WHERE (due = ? AND job > ? OR due > ?) AND due < ? ORDER BY due, job LIMIT ?`}

	allEnded = source{
		query: selectEnded + `FROM history FORCE INDEX (PRIMARY) WHERE place < ? ORDER BY place DESC LIMIT ?`,
	}

	allDead = source{
		dead:  true,
		query: selectEnded + `FROM dead FORCE INDEX (dead_pos) WHERE place < ? ORDER BY place DESC LIMIT ?`,
	}
)

func endedIn(state carillon.State) source {
	return source{
		state: state,
		query: selectEnded +
			`FROM history FORCE INDEX (history_state) WHERE place < ? AND state = ? ORDER BY place DESC LIMIT ?`,
	}
}

// Runs of one job: unfinished runs by run_job, ended runs by history_job, and the dead letters by primary
// key; one job has few enough to sort them.
var (
	jobUnended = source{hot: true, query: `SELECT ` + runColumns + `, ? FROM run FORCE INDEX (run_job)
WHERE job = ? AND due < ? ORDER BY due DESC LIMIT ?`}

	jobEnded = source{query: selectEnded + `FROM history FORCE INDEX (history_job)
WHERE job = ? AND (due = ? AND place < ? OR due < ?) ORDER BY due DESC, place DESC LIMIT ?`}

	jobDead = source{
		dead: true,
		query: selectEnded +
			`FROM dead FORCE INDEX (PRIMARY) WHERE place < ? AND job = ? ORDER BY place DESC LIMIT ?`,
	}
)

// args returns the arguments with which a source goes on after a position, except the first and the last.
func (s *runStream) args() []any {
	q, pos := s.query, s.pos
	switch s.source {
	case allUnfinished:
		if pos.Due < q.From {
			pos.Due, pos.Job = q.From, math.MinInt64
		}
		return []any{pos.Due, pos.Job, pos.Due, cmp.Or(q.To, math.MaxInt64)}
	case jobUnended:
		return []any{q.Job, pos.Due}
	case jobEnded:
		return []any{q.Job, pos.Due, pos.Place, pos.Due}
	case jobDead:
		return []any{pos.Place, q.Job}
	case allEnded, allDead:
		return []any{pos.Place}
	}
	return []any{pos.Place, s.source.state}
}

// runStream is a source that has been read up to pos.
type runStream struct {
	conn   *conn
	query  *carillon.RunQuery
	source source
	size   int         // of the next page
	page   []streamRow // rows that were read ahead
	ended  bool        // there is no further page

	live bool // false: at the end
	streamRow
	pos carillon.RunPos
}

type streamRow struct {
	run    carillon.Run
	wanted bool
	place  int64
}

// next moves on to the next row.
func (s *runStream) next() error {
	if len(s.page) == 0 && !s.ended {
		if err := s.read(); err != nil {
			return err
		}
	}
	if s.live = len(s.page) > 0; !s.live {
		return nil
	}
	s.streamRow, s.page = s.page[0], s.page[1:]
	s.pos = s.position()
	return nil
}

func (s *runStream) position() carillon.RunPos {
	switch s.pos.Part {
	case carillon.RunPartJob:
		return carillon.RunPos{Part: s.pos.Part, Due: s.run.ID.Due, Place: s.place}
	case carillon.RunPartUnfinished:
		return carillon.RunPos{Part: s.pos.Part, Due: s.run.ID.Due, Job: s.run.ID.Job}
	}
	return carillon.RunPos{Part: s.pos.Part, Place: s.place}
}

// read reads a page ahead. Pages grow: most searches find what they want among the first rows.
func (s *runStream) read() error {
	const runWanted, endedWanted = 23, 25
	args := append([]any{wantedRuns(s.query)}, s.args()...)
	err := s.conn.query(func(r row) error {
		next := streamRow{place: carillon.Unended}
		if s.source.hot {
			next.run = r.unfinished()
			next.wanted = r.bool(runWanted) && s.query.Wants(&next.run)
		} else {
			next.run, next.place = r.ended(s.source.dead)
			next.wanted = r.bool(endedWanted)
		}
		s.page = append(s.page, next)
		return nil
	}, s.source.query, append(args, s.size)...)
	s.ended = len(s.page) < s.size
	s.size = min(2*s.size, 4000)
	return err
}

// wantedRuns writes the conditions of a query.
func wantedRuns(q *carillon.RunQuery) raw {
	var all conditions
	all.text(`namespace = ?`, q.Namespace)
	all.text(`worker = ?`, q.Worker)
	all.time(`due >= ?`, q.From)
	all.time(`due < ?`, q.To)
	if states := q.Within(); len(states) > 0 {
		all.add(`state IN (?)`, ints(states))
	}
	return all.all()
}
