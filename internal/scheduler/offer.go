package scheduler

import (
	"context"
	"sync"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/await"
)

// Pulls are the pulls of workers that wait on this node.
type Pulls interface {
	// Waits says for each run whether a pull waits that has room for it beside the runs before it.
	Waits(runs []carillon.Run) []bool
	// EndPulls ends the pulls of workers whose sessions are over. Such a pull would claim runs only to have
	// them taken back.
	EndPulls(workers []string)
}

// UsePulls lets a due run of a guarded job go straight to a waiting pull: the dispatcher reads the guard and
// decides when it claims, so an earlier decision would only read the guard once more. The scheduler also says
// which pulls are of no use any more. Call it before Run.
func (s *Scheduler) UsePulls(pulls Pulls) { s.pulls = pulls }

// offerTime is how long an offered run can stay unclaimed. Then the decide loop decides about it: a due time
// must be skipped, or wait in line, also if no worker has a free slot.
const offerTime = time.Second

// offers are the guarded runs that were put into the queue without a decision.
type offers struct {
	mu      *sync.Mutex
	open    map[carillon.RunID]int32 // the revision at which each was offered
	batches *[]offered               // oldest first
	ready   await.Signal             // there is a first batch
}

// offered are the runs that were offered at the same time.
type offered struct {
	ids   []carillon.RunID
	until time.Time
}

func newOffers() offers {
	return offers{new(sync.Mutex), map[carillon.RunID]int32{}, new([]offered), await.NewSignal()}
}

// offer puts the due runs that pulls wait for into the queue, if only the guard can be in the way of them. It
// returns the others. A run that may have missed its time goes to the decide loop, which ends many such runs
// with one commit.
func (s *Scheduler) offer(
	ctx context.Context, runs []carillon.Run, now carillon.Time,
) (others []carillon.Run) {
	guarded, others := split(runs, func(r *carillon.Run) bool {
		return r.NeedsOnlyGuard(now) && r.Hold == ""
	})
	if s.pulls == nil || len(guarded) == 0 {
		return runs
	}
	var offered []carillon.Run
	for i, waits := range s.pulls.Waits(guarded) {
		if waits {
			offered = append(offered, guarded[i])
		} else {
			others = append(others, guarded[i])
		}
	}
	if len(offered) > 0 {
		s.offers.add(offered, time.Now().Add(offerTime))
		s.enqueue(ctx, offered)
	}
	return others
}

func (o *offers) add(runs []carillon.Run, until time.Time) {
	ids := make([]carillon.RunID, len(runs))
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range runs {
		ids[i] = runs[i].ID
		o.open[runs[i].ID] = runs[i].Rev
	}
	if *o.batches = append(*o.batches, offered{ids, until}); len(*o.batches) == 1 {
		o.ready.Set()
	}
}

// close notes that a run was changed since it was offered: that writer has decided about it.
func (o *offers) close(run *carillon.Run) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if rev, open := o.open[run.ID]; open && run.Rev > rev {
		delete(o.open, run.ID)
	}
}

// unclaimed takes out the runs that were offered too long ago, and returns when to ask next; zero: nothing is
// offered.
func (o *offers) unclaimed(now time.Time) (ids []carillon.RunID, next time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(*o.batches) > 0 && !(*o.batches)[0].until.After(now) {
		for _, id := range (*o.batches)[0].ids {
			if _, open := o.open[id]; open {
				ids = append(ids, id)
				delete(o.open, id)
			}
		}
		*o.batches = (*o.batches)[1:]
	}
	if len(*o.batches) == 0 {
		*o.batches = nil
		return ids, time.Time{}
	}
	return ids, (*o.batches)[0].until
}
