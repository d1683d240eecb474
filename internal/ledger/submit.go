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
//
// With an idempotency key (see carillon.Once) all jobs are stored or none, together with the key's guard.
func (l *Ledger) Submit(
	ctx context.Context, namespace string, defs []carillon.Definition,
) ([]carillon.Job, error) {
	key := keyedBy(ctx, namespace)
	if key == nil {
		jobs, lost, err := l.submit(ctx, namespace, defs, nil)
		if err == nil && lost > 0 {
			err = sameIDs(lost, len(defs))
		}
		return jobs, err
	}
	unexplained := 0 // tries that lost, though there was no guard before and after them
	for range maxTries {
		expected := key.was.Rev
		jobs, lost, err := l.submit(ctx, namespace, defs, key)
		if err != nil || lost == 0 {
			return jobs, err
		}
		if err := l.look(ctx, key); err != nil {
			return nil, err
		}
		if expected == 0 && key.was.Rev == 0 {
			unexplained++
		}
		if unexplained > 1 { // the first time an expired guard may just have been removed
			return nil, sameIDs(lost, len(defs))
		}
	}
	return nil, errTooBusy
}

func sameIDs(lost, of int) error {
	return fmt.Errorf(
		"%d of %d jobs have ids that exist already: is another process using this node number?", lost, of,
	)
}

// submit makes one try, and returns how many changes lost.
func (l *Ledger) submit(
	ctx context.Context, namespace string, defs []carillon.Definition, key *keyed,
) (jobs []carillon.Job, lost int, err error) {
	now := l.cfg.Clock.Now()
	changes, err := l.submissions(namespace, defs, key, now)
	if err != nil {
		return nil, 0, err
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
	gone, err := l.commit(context.WithoutCancel(ctx), to, e)
	failpoint.At("submit.after")
	if err != nil || len(gone) > 0 {
		l.releaseSlots(reserved)
		return nil, len(gone), err
	}
	jobs = make([]carillon.Job, len(changes)) // copies: Definitions remembers and shares the originals
	for i := range changes {
		jobs[i] = *changes[i].Job
	}
	return jobs, 0, nil
}

// submissions makes the changes that submit jobs. With a key the first one has its guard, and the others are
// joined to it.
func (l *Ledger) submissions(
	namespace string, defs []carillon.Definition, key *keyed, now carillon.Time,
) ([]carillon.Change, error) {
	at := now
	if key != nil {
		at = key.once.At // so that a repeated request gives the same jobs
	}
	changes := make([]carillon.Change, len(defs))
	use := carillon.Use{At: at}
	for i := range defs {
		id, err := l.cfg.IDs.Next(now)
		if err != nil {
			return nil, err
		}
		// Each job is a separate allocation: one that is remembered must not keep the others in memory.
		changes[i] = carillon.Submit(&carillon.Job{Namespace: namespace, ID: id, Definition: defs[i]}, at)
		if key != nil {
			changes[i].Joined = i > 0
			use.Jobs = append(use.Jobs, id)
		}
	}
	if key != nil && len(changes) > 0 {
		key.add(&changes[0], use, now)
	}
	return changes, nil
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
