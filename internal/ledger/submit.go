package ledger

import (
	"context"
	"fmt"
	"time"

	"github.com/carillon-run/carillon"
)

// Slots are the free slots of workers whose pulls wait on this node.
type Slots interface {
	// Reserve takes a free slot for a run that is about to be submitted, unless a due run waits that could
	// take the slot. When the run is committed as claimed, the owner of the slot begins it; nothing has to be
	// handed over afterwards.
	Reserve(run *carillon.Run, job *carillon.Job, now carillon.Time) (worker string, ok bool)
	// Release gives back slots that were reserved for runs that were not committed.
	Release(ids []carillon.RunID)
	// Starting says that more starts are about to come: due runs wait, and some are on their way to a slot. A
	// ledger with one flusher then holds ends back. It asks before every commit.
	Starting() bool
}

// UseSlots lets due jobs be submitted already claimed by these slots (preclaimed), and lets starts go before
// ends. Call it before Run.
func (l *Ledger) UseSlots(slots Slots) { l.slots = slots }

// Submit stores new jobs, whose definitions were admitted, and returns when they are on disk. Each job is
// stored completely or not at all. After an error some of the jobs may be stored: PostgreSQL writes more than
// 32 MiB in several transactions.
//
// A job that is due at once is written already claimed if a slot is free for it (preclaimed). This makes two
// writes and one commit for the whole life of the run instead of three and two, with the same fence and the
// same repair.
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
	fused := l.preclaim(changes, now)
	l.rememberDue(changes, now)
	// The commit goes on when the caller gives up. A committed run gives back its slot itself; all other
	// slots are released here.
	lost, err := l.Commit(context.WithoutCancel(ctx), changes)
	if err == nil && len(lost) > 0 {
		err = fmt.Errorf(
			"%d of %d jobs have ids that exist already: is another process using this node number?",
			len(lost), len(defs),
		)
	}
	if err != nil {
		// If the store committed a run after all, the watch loop finds a claimed run that no worker holds.
		if len(fused) > 0 {
			l.slots.Release(fused)
		}
		return nil, err
	}
	jobs := make([]carillon.Job, len(changes)) // copies: Definitions remembers and shares the originals
	for i := range changes {
		jobs[i] = *changes[i].Job
	}
	return jobs, nil
}

// preclaim claims due runs for free slots, in place, and returns their ids.
func (l *Ledger) preclaim(changes []carillon.Change, now carillon.Time) (fused []carillon.RunID) {
	if l.slots == nil {
		return nil
	}
	for i := range changes {
		run := changes[i].Runs[0]
		if run.Wake > now || !run.NeedsNoDecision(now) {
			continue
		}
		worker, ok := l.slots.Reserve(&run, changes[i].Job, now)
		if !ok {
			break
		}
		verdict, c := carillon.Candidate{Job: changes[i].Job, Run: run, Worker: worker}.Decide(now)
		if verdict != carillon.VerdictClaim {
			l.slots.Release([]carillon.RunID{run.ID})
			continue
		}
		changes[i].Runs = c.Runs
		fused = append(fused, run.ID)
	}
	return fused
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
