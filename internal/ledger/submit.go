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
	var reserved []carillon.RunID
	if !l.crowded() { // else those that came before have the next slots
		reserved = l.preclaim(changes, now)
	}
	failpoint.At("submit.before")
	to, e := &l.starts, entry{changes: changes, reserved: &reserved}
	if len(reserved) == 0 { // else a pull waits for the commit
		to, e.due = &l.submits, l.countClaimable(changes, now)
	}
	// The commit goes on when the caller gives up: a run that was preclaimed begins all the same.
	lost, err := l.commit(context.WithoutCancel(ctx), to, e)
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

// rememberDue keeps the definitions of new jobs that will be needed soon. Those of later runs would be pushed
// out before they are needed; that of a one-off whose run is claimed already is needed no more.
func (l *Ledger) rememberDue(committed []carillon.Change) {
	soon := l.cfg.Clock.Now().Add(time.Minute)
	var jobs []*carillon.Job
	for i := range committed {
		c := &committed[i]
		if c.Job == nil || c.Job.Rev > 1 || len(c.Runs) == 0 || c.Runs[0].Wake > soon {
			continue
		}
		if !c.Runs[0].State.Held() || c.Job.Schedule.Recurring() {
			jobs = append(jobs, c.Job)
		}
	}
	l.Definitions.Remember(jobs...)
}
