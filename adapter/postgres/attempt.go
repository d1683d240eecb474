package postgres

import (
	"cmp"
	"context"

	"github.com/carillon-run/carillon"
)

// The records of attempts, by primary key. The last record of an attempt is kept.
var (
	putAttempt = forRows("put_attempt", `job int8 key, due int8 key, namespace text, number int4 key,
  worker text, claimed int8, started int8, ended int8, outcome int2, reason text, exit int2, status int4`,
		`INSERT INTO carillon.attempt (job, due, namespace, number, worker, claimed, started, ended, outcome,
  reason, exit, status)
SELECT job, due, namespace, number, worker, claimed, started, ended, outcome, reason, exit, status FROM ROWS x
ON CONFLICT (job, due, number) DO UPDATE SET worker = excluded.worker, claimed = excluded.claimed,
  started = excluded.started, ended = excluded.ended, outcome = excluded.outcome, reason = excluded.reason,
  exit = excluded.exit, status = excluded.status`)

	attemptsAfter = statement{"attempts_after", `SELECT number, worker, claimed, started, ended, outcome,
  reason, exit, status
FROM carillon.attempt WHERE job = $1::bigint AND due = $2::bigint AND number > $3::bigint
ORDER BY number LIMIT $4::bigint`}

	deleteAttempts = forRows(
		"delete_attempts", `shard int2 key, due int8 key, job int8 key`,
		`DELETE FROM carillon.attempt o`+unlessKept,
	)
)

func (r *rows) attempt(run *carillon.Run, a *carillon.Attempt) {
	r.deadKey(run.ID)
	r.text(run.Namespace)
	r.int(int64(a.Number))
	r.text(a.Worker)
	r.int(int64(a.Claimed))
	r.int(int64(a.Started))
	r.int(int64(a.Ended))
	r.int(int64(a.Outcome))
	r.text(a.Reason)
	r.int(int64(a.Exit))
	r.int(int64(a.Status))
}

// Attempts implements carillon.Store.
func (s *Store) Attempts(
	ctx context.Context, run carillon.RunID, after int32, limit int,
) (found []carillon.Attempt, err error) {
	err = s.read(ctx, call{
		&attemptsAfter,
		[][]byte{
			int8Param(int64(run.Job)), int8Param(int64(run.Due)), int8Param(int64(after)),
			int8Param(int64(cmp.Or(limit, carillon.DefaultLimit))),
		},
		func(r *row) error {
			found = append(found, carillon.Attempt{
				Run: run, Number: int32(r.int()), Worker: r.name(), Claimed: carillon.Time(r.int()),
				Started: carillon.Time(r.int()), Ended: carillon.Time(r.int()),
				Outcome: carillon.OutcomeKind(r.int()), Reason: r.text(), Exit: uint8(r.int()),
				Status: uint16(r.int()),
			})
			return nil
		},
	})
	return found, err
}
