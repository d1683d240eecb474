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
// With an idempotency key (see carillon.Once), or if one of them has a unique key, all jobs are stored or
// none. The answer for a job whose unique key another job holds can be that job: see carillon.Unique.
func (l *Ledger) Submit(
	ctx context.Context, namespace string, defs []carillon.Definition,
) ([]carillon.Job, error) {
	key, unique := keyedBy(ctx, namespace), withUnique(defs)
	if key != nil || unique {
		return l.perform(ctx, &submission{namespace: namespace, defs: defs, key: key, unique: unique})
	}
	now := l.cfg.Clock.Now()
	changes, answer, err := l.submissions(namespace, defs, now, now)
	if err != nil {
		return nil, err
	}
	lost, err := l.commitSubmits(ctx, changes, now)
	if err == nil && lost > 0 {
		err = sameIDs(lost, len(defs))
	}
	if err != nil {
		return nil, err
	}
	return submitted(changes, answer), nil
}

// submitted completes the answer with copies of the jobs that are not in it: Definitions remembers and shares
// the originals.
func submitted(changes []carillon.Change, answer []carillon.Job) []carillon.Job {
	for i := range changes {
		if changes[i].Job != &answer[i] {
			answer[i] = *changes[i].Job
		}
	}
	return answer
}

func sameIDs(lost, of int) error {
	return fmt.Errorf(
		"%d of %d jobs have ids that exist already: is another process using this node number?", lost, of,
	)
}

// submissions makes the changes that submit jobs at a time, with ids of now. A job for later, which only the
// caller will keep, is in the answer already: that saves a copy. A job that others will keep is a separate
// allocation: the caller can change the answer, and such a job must not keep the others in memory.
func (l *Ledger) submissions(
	namespace string, defs []carillon.Definition, now, at carillon.Time,
) (changes []carillon.Change, answer []carillon.Job, err error) {
	changes, answer = make([]carillon.Change, len(defs)), make([]carillon.Job, len(defs))
	for i := range defs {
		id, err := l.cfg.IDs.Next(now)
		if err != nil {
			return nil, nil, err
		}
		job := &answer[i]
		if defs[i].Schedule.Recurring() || isSoon(defs[i].Schedule.At, at) {
			job = new(carillon.Job)
		}
		job.Namespace, job.ID, job.Definition = namespace, id, defs[i]
		changes[i] = carillon.Submit(job, at)
	}
	return changes, answer, nil
}

// isSoon says that the definition of a job that was submitted at a time will be needed soon for its first
// run.
func isSoon(wake, submitted carillon.Time) bool { return wake <= submitted.Add(time.Minute) }

// commitSubmits commits the changes that insert jobs, and returns how many lost.
func (l *Ledger) commitSubmits(
	ctx context.Context, changes []carillon.Change, now carillon.Time,
) (lost int, err error) {
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
	}
	return len(gone), err
}

// rememberDue keeps the definitions of new jobs that will be needed soon. Those of later runs would be pushed
// out before they are needed; that of a one-off whose run is claimed already is needed no more.
func (l *Ledger) rememberDue(committed []carillon.Change) {
	var jobs []*carillon.Job
	for i := range committed {
		c := &committed[i]
		if c.Job == nil || c.Job.Rev > 1 || len(c.Runs) == 0 || !isSoon(c.Runs[0].Wake, c.Job.Created) {
			continue
		}
		if !c.Runs[0].State.Held() || c.Job.Schedule.Recurring() {
			jobs = append(jobs, c.Job)
		}
	}
	l.Definitions.Remember(jobs...)
}
