package ledger

import (
	"context"
	"fmt"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/failpoint"
)

// Submit stores new jobs, whose definitions were admitted, and returns when they are on disk. Each job is
// stored completely or not at all. After an error some of the jobs may be stored: PostgreSQL writes more than
// 32 MiB in several transactions.
//
// A job that is due at once is written already claimed if a slot is free for it: see preclaim.
func (l *Ledger) Submit(
	ctx context.Context, namespace string, defs []carillon.Definition,
) ([]carillon.Job, error) {
	now := l.cfg.Clock.Now()
	changes := make([]carillon.Change, len(defs))
	for i := range defs {
		id, err := l.cfg.IDs.Next(now)
		if err != nil {
			return nil, err
		}
		// Each job is a separate allocation: one that is remembered must not keep the others in memory.
		changes[i] = carillon.Submit(&carillon.Job{Namespace: namespace, ID: id, Definition: defs[i]}, now)
	}
	reserved := l.preclaim(changes, now)
	l.rememberDue(changes, now)
	failpoint.At("submit.before")
	to := &l.submits
	if len(reserved) > 0 {
		to = &l.starts // a pull waits for the commit
	}
	// The commit goes on when the caller gives up: a run that was preclaimed begins all the same.
	lost, err := l.commit(context.WithoutCancel(ctx), to, entry{changes: changes, reserved: &reserved})
	failpoint.At("submit.after")
	if err == nil && len(lost) > 0 {
		err = fmt.Errorf(
			"%d of %d jobs have ids that exist already: is another process using this node number?",
			len(lost), len(defs),
		)
	}
	if err != nil {
		l.releaseSlots(reserved)
		return nil, err
	}
	jobs := make([]carillon.Job, len(changes)) // copies: Definitions remembers and shares the originals
	for i := range changes {
		jobs[i] = *changes[i].Job
	}
	return jobs, nil
}

// rememberDue keeps the definitions that will be needed soon. Those of later runs would be pushed out before
// they are needed.
func (l *Ledger) rememberDue(changes []carillon.Change, now carillon.Time) {
	soon := now.Add(time.Minute)
	for i := range changes {
		if c := &changes[i]; c.Runs[0].Wake <= soon {
			l.Definitions.Remember(c.Job)
		}
	}
}
