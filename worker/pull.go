package worker

import (
	"context"
	"time"

	"github.com/carillon-run/carillon"
)

const (
	// pullLoops is more than one so that some read definitions while the claims of others are being committed.
	pullLoops = 4
	// The first claim of a burst is small, so that its runs start early; then claims grow, which is cheaper for each.
	firstClaim = 64
	largeClaim = 1000
	// maxPendingEnds bounds what has ended and is not yet on disk: slots are free as soon as a run returns, so without
	// a bound a fast worker would outrun the store without end.
	maxPendingEnds = 40_000
)

// pull claims due runs as long as there are free slots.
func (w *Worker) pull(ctx context.Context) {
	size := firstClaim
	for ctx.Err() == nil {
		if !w.endsCaughtUp(ctx) {
			return
		}
		asked := w.slots.ask(ctx, size)
		if asked == 0 {
			return
		}
		runs, ack, err := w.cfg.Queue.Pull(ctx, w.cfg.Queues, asked)
		w.inHand.Add(int64(len(runs)))
		taken := w.slots.answered(asked, len(runs))
		if err != nil {
			if ctx.Err() == nil {
				w.cfg.Logger.Error("pull due runs", "error", err)
				sleep(ctx, time.Second)
			}
			continue
		}
		if len(runs) == asked {
			size = min(2*size, largeClaim)
		} else {
			size = firstClaim
		}
		for rest := runs; len(rest) > 0; {
			if taken == 0 { // submits were quicker
				if taken = w.slots.takeSome(ctx, len(rest)); taken == 0 {
					break // stopping: the store has them
				}
			}
			w.claim(ctx, rest[:taken])
			rest, taken = rest[taken:], 0
		}
		w.inHand.Add(-int64(len(runs)))
		if err := ack(ctx); err != nil && ctx.Err() == nil {
			w.cfg.Logger.Error("acknowledge pulled runs", "error", err) // they come again, and claiming them again loses
		}
	}
}

func (w *Worker) endsCaughtUp(ctx context.Context) bool {
	for w.pendingEnds.Load() > maxPendingEnds {
		if !sleep(ctx, 5*time.Millisecond) {
			return false
		}
	}
	return true
}

// claim asks the ledger for runs, one slot being taken for each. Those that win begin by way of Notice; the others give
// their slots back. Whoever changed a run that lost has passed it on; but it may have lost for its guard alone, which
// another run of the job changed, and then somebody has to look at it again.
func (w *Worker) claim(ctx context.Context, runs []carillon.Run) {
	dues, err := w.cfg.Ledger.Dues(ctx, runs, w.cfg.ID)
	if err != nil {
		w.slots.release(len(runs))
		if ctx.Err() == nil {
			w.cfg.Logger.Error("read what is to be claimed", "error", err, "runs", len(runs)) // the sweeper pushes it again
		}
		return
	}
	w.expect(dues)
	now := carillon.Now()
	changes := make([]carillon.Change, len(dues))
	taken := 0
	for i, due := range dues {
		verdict, c := due.Decide(now)
		changes[i] = c
		if verdict == carillon.Take {
			taken++
		}
	}
	lost, err := w.cfg.Ledger.Commit(context.WithoutCancel(ctx), changes)
	w.forgo(dues, changes, lost, err, len(runs)-taken)
	if err != nil {
		w.cfg.Logger.Error("claim", "error", err, "runs", len(runs)) // the sweeper tries again
		sleep(ctx, time.Second)
	}
}

// expect keeps the definitions at hand until Notice begins the runs.
func (w *Worker) expect(dues []carillon.Due) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range dues {
		w.jobs[dues[i].Run.ID] = dues[i].Job
	}
}

// forgo gives back the slots of runs that were not claimed after all.
func (w *Worker) forgo(dues []carillon.Due, changes []carillon.Change, lost []int, err error, slots int) {
	var again []carillon.RunID
	w.mu.Lock()
	for i := range dues {
		won := err == nil && (len(lost) == 0 || lost[0] != i)
		if len(lost) > 0 && lost[0] == i {
			lost = lost[1:]
		}
		if !won && changes[i].Runs[0].State == carillon.Claimed {
			slots++
		}
		if !won && err == nil && dues[i].Run.Has(carillon.Guarded) {
			again = append(again, dues[i].Run.ID)
		}
		delete(w.jobs, dues[i].Run.ID)
	}
	w.mu.Unlock()
	if slots > 0 {
		w.slots.release(slots)
	}
	w.cfg.Look(again)
}

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
