package mysql

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/carillon-run/carillon"
)

// The table line has a row for each run with a hold. A commit does not read what a run had before, and most
// runs never have a hold. So a commit assumes that a run which has neither a hold nor slots now had no hold
// before, and the statement that writes the run checks that: such runs cost no statement more. If the check
// fails, the commit is undone and written again as lined: then it deletes the rows of all its runs, whether
// they exist or not. The next commits are lined too, because one such run is often followed by more.
//
// The lock of the run protects its row here: every commit writes the run first.
const (
	// unheld is the check of statements with a condition. The ones without (ifRun) fail with a sum that is
	// too large, like mustBe.
	unheld = `hold = '' AND `

	putHold      = `IF(rev = VALUES(rev), VALUES(hold), hold)`
	putHoldCheck = `IF(rev <> VALUES(rev), hold, IF(hold = '' OR VALUES(hold) <> '' OR VALUES(slots) <> '',
    VALUES(hold), 9223372036854775807 + (hold <> '')))`

	deleteLines = `DELETE line FROM line FORCE INDEX (line_run) WHERE (due, job) IN (`
	// insertLines copies what is stored: an update cannot change the namespace of a run.
	insertLines = `INSERT INTO line (namespace, hold, due, job) SELECT namespace, hold, due, job
FROM run FORCE INDEX (PRIMARY) WHERE (due, job) IN (`
)

// wary is how many commits are lined after one had to be.
const wary = 16

// lined says whether a commit is lined from the beginning: it has no run to assume anything about, or a
// recent commit assumed too much.
func (s *Store) lined(changes []carillon.Change) bool {
	for i := range changes {
		for j := range changes[i].Runs {
			if run := &changes[i].Runs[j]; run.Rev != 0 && !lines(run) {
				return s.wary.Load() > 0 && s.wary.Add(-1) >= 0
			}
		}
	}
	return true
}

// lines says that a run may have a row in line: it has a hold, or was given slots because it waited for them.
func lines(run *carillon.Run) bool { return run.Hold != "" || run.Slots != "" }

// check returns the check of runs that are all assumed to have had no hold, or none of them.
func (p *batch) check(run *carillon.Run) raw {
	if p.lined || lines(run) {
		return ``
	}
	return unheld
}

// checked tells the runs whose statement has the check, the plain ones, from the others.
func (p *batch) checked(runs []*carillon.Run) (plain, lined []*carillon.Run) {
	for _, run := range runs {
		if p.check(run) == `` {
			lined = append(lined, run)
		} else {
			plain = append(plain, run)
		}
	}
	return plain, lined
}

func (p *batch) putLines() {
	var leave, wait []*carillon.Run
	for _, runs := range [][]*carillon.Run{p.newRuns, p.updated, p.left} {
		for _, run := range runs {
			if run.Rev != 0 && p.check(run) == `` {
				leave = append(leave, run)
			}
			if run.Hold != "" && !run.State.Ended() {
				wait = append(wait, run)
			}
		}
	}
	key := func(b []byte, run *carillon.Run) []byte { return dueJob(b, run.ID) }
	many(&p.statements, deleteLines, leave, key, `)`, 0)
	many(&p.statements, insertLines, wait, key, `)`, 0)
}

// lineAfter reads a line by the primary key of line, and its runs by theirs.
var lineAfter = `(SELECT r.` + strings.Join(strings.FieldsFunc(runColumns, func(c rune) bool {
	return c == ',' || c == ' ' || c == '\n'
}), `, r.`) + ` FROM line l FORCE INDEX (PRIMARY)
STRAIGHT_JOIN run r FORCE INDEX (PRIMARY) ON r.due = l.due AND r.job = l.job
WHERE l.namespace = ? AND l.hold = ? AND (l.due = ? AND l.job > ? OR l.due > ?) AND l.due <= ?
  AND r.state = 1 AND (r.wake <= ? OR r.wake = ?) ORDER BY l.due, l.job LIMIT ?)`

// maxUnion is how many lines one statement reads.
const maxUnion = 64

// Line implements carillon.Store.
func (s *Store) Line(ctx context.Context, q carillon.LineQuery) (found []carillon.Run, err error) {
	limit := cmp.Or(q.Limit, carillon.DefaultLimit)
	err = s.use(ctx, func(l *conn) error {
		for names := range slices.Chunk(q.Lines, maxUnion) {
			query := []byte{}
			for i, name := range names {
				if i > 0 {
					query = append(query, ` UNION ALL `...)
				}
				query = appendSQL(query, lineAfter, name.Namespace, name.Hold, q.After.Due, q.After.Job,
					q.After.Due, q.Until, q.Until, carillon.Never, limit)
			}
			if err := l.query(into(&found), string(query)); err != nil {
				return err
			}
		}
		return nil
	})
	return found, tried("read lines", err)
}

// holdsAfter reads the first runs of the lines after a name, by the primary key of line. The server could
// find distinct names itself, but then it sometimes reads all runs of a long line.
const holdsAfter = `SELECT namespace, hold FROM line FORCE INDEX (PRIMARY)
WHERE namespace = ? AND hold > ? OR namespace > ? ORDER BY namespace, hold LIMIT ?`

// someRuns is how many runs are read to find names. Most lines are short, so most reads find several names.
const someRuns = 64

// Holds implements carillon.Store. It passes over the rest of a line at once.
func (s *Store) Holds(
	ctx context.Context, after carillon.HoldName, limit int,
) (names []carillon.HoldName, err error) {
	limit = cmp.Or(limit, carillon.DefaultLimit)
	err = s.use(ctx, func(l *conn) error {
		for more := true; more && len(names) < limit; {
			most, read := min(limit-len(names), someRuns), 0
			err := l.query(func(r row) error {
				name := carillon.HoldName{Namespace: r.text(0), Hold: r.text(1)}
				if read++; name != after {
					names, after = append(names, name), name
				}
				return nil
			}, holdsAfter, after.Namespace, after.Hold, after.Namespace, most)
			if err != nil {
				return err
			}
			more = read == most
		}
		return nil
	})
	return names, tried("read the names of lines", err)
}

// countRuns counts the runs of a namespace that carillon.CountOf counts. It reads all of them: an index for
// people who look at a queue now and then would cost every run.
var countRuns = fmt.Sprintf(`SELECT queue, state,
  IF(state = 1 AND flags & %[2]d = 0 AND wake = %[1]d, hold, '') AS place,
  state = 1 AND flags & %[2]d <> 0 AS paused, COUNT(*), MIN(due) FROM run
WHERE namespace = ? AND (state <> 1 OR due <= ?
  AND IF(flags & %[2]d <> 0, wake = %[1]d, wake <= ? OR wake = %[1]d AND hold <> ''))
GROUP BY queue, state, place, paused`, carillon.Never, carillon.FlagOnHold)

// Counts implements carillon.Store.
func (s *Store) Counts(
	ctx context.Context, namespace string, now carillon.Time,
) (counts []carillon.QueueCount, err error) {
	err = s.use(ctx, func(l *conn) error {
		return l.query(func(r row) error {
			counts = append(counts, carillon.QueueCount{
				Queue: r.text(0), State: carillon.State(r.int(1)), Hold: r.text(2), Paused: r.bool(3),
				Runs: int(r.int(4)), Oldest: carillon.Time(r.int(5)),
			})
			return nil
		}, countRuns, namespace, now, now)
	})
	return counts, tried("count runs", err)
}
