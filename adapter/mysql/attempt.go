package mysql

import (
	"cmp"
	"context"

	"github.com/carillon-run/carillon"
)

// The records of attempts, by primary key. The last record of an attempt is kept.
const (
	attemptColumns = "number, worker, claimed, started, ended, outcome, reason, `exit`, status"

	putAttempts = `REPLACE INTO attempt (due, job, namespace, ` + attemptColumns + `) VALUES `

	attemptsAfter = `SELECT ` + attemptColumns + ` FROM attempt FORCE INDEX (PRIMARY)
WHERE due = ? AND job = ? AND number > ? ORDER BY number LIMIT ?`

	deleteAttempts = `DELETE o FROM attempt o FORCE INDEX (PRIMARY)` + unlessKept
)

// putAttempts writes the records of the attempts that the group ends.
func (p *batch) putAttempts() {
	var ended []*carillon.Run
	for _, run := range p.outputs {
		if run.Output.Attempt != nil {
			ended = append(ended, run)
		}
	}
	many(&p.statements, putAttempts, ended, func(b []byte, run *carillon.Run) []byte {
		a := run.Output.Attempt
		return appendSQL(
			b, `(?,?,?,?,?,?,?,?,?,?,?,?)`, run.ID.Due, run.ID.Job, run.Namespace, a.Number, a.Worker,
			a.Claimed, a.Started, a.Ended, int(a.Outcome), a.Reason, int(a.Exit), int(a.Status),
		)
	}, ``, 0)
}

// Attempts implements carillon.Store.
func (s *Store) Attempts(
	ctx context.Context, run carillon.RunID, after int32, limit int,
) (found []carillon.Attempt, err error) {
	err = s.use(ctx, func(l *conn) error {
		return l.query(func(r row) error {
			found = append(found, carillon.Attempt{
				Run: run, Number: int32(r.int(0)), Worker: r.name(1), Claimed: carillon.Time(r.int(2)),
				Started: carillon.Time(r.int(3)), Ended: carillon.Time(r.int(4)),
				Outcome: carillon.OutcomeKind(r.int(5)), Reason: r.text(6), Exit: uint8(r.int(7)),
				Status: uint16(r.int(8)),
			})
			return nil
		}, attemptsAfter, run.Due, run.Job, after, cmp.Or(limit, carillon.DefaultLimit))
	})
	return found, tried("read attempts", err)
}
