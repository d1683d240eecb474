package scheduler

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/await"
	"github.com/carillon-run/carillon/internal/failpoint"
)

// watch takes held runs back from workers that are gone or do not know of them. It reads the held runs
// themselves, whatever else it was told, so no run can be stuck with a worker for ever.
func (s *Scheduler) watch(ctx context.Context) error {
	next := time.NewTimer(s.cfg.Sweep / 2)
	defer next.Stop()
	suspects := suspects{}
	var before time.Duration // how long the check before took
	for {
		var of heldRange
		select {
		// From the very beginning: the runs of a dead worker must not wait for another check.
		case <-s.gone:
			of.urgent = true
		case <-next.C:
			of.from = s.floor.start(s.members.shards())
		case <-suspects.due():
			if !s.checkSuspects(ctx, &suspects) {
				s.checkSoon(ctx)
			}
			continue
		case <-ctx.Done():
			return nil
		}
		began := time.Now()
		done := s.checkHeld(ctx, of, &suspects)
		took := time.Since(began)
		next.Reset(s.nextCheck(min(took, before)))
		before = took
		if !done {
			s.checkSoon(ctx)
		}
	}
}

// nextCheck is how long the watch loop waits if its last two checks each took this long. A check may have to
// pass over millions of waiting runs, and the store needs time for other work: a thirtieth is enough for
// these checks. But however long they took, the next comes within a minute. One long check alone says
// nothing: the store may just have hung for a moment, and that is when claims get lost.
func (s *Scheduler) nextCheck(took time.Duration) time.Duration {
	return max(s.cfg.Sweep/2, min(29*took, time.Minute))
}

// heldPage is how many held runs are judged at a time.
const heldPage = 5000

// heldRange is where a check of held runs begins. A check that is not urgent gives way to one that
// is.
type heldRange struct {
	from   carillon.WakePos
	urgent bool
}

// checkHeld checks held runs, and says whether it could.
func (s *Scheduler) checkHeld(ctx context.Context, of heldRange, were *suspects) bool {
	// After a claim, the wake of a run is not later than the claim. But the claim has the time of another
	// node's clock, or of this node's clock before it was set back.
	s.latest = max(s.latest, s.cfg.Clock.Now())
	q := carillon.WakeQuery{
		Shards: s.members.shards(), Held: true, After: of.from, Until: s.latest.Add(skew), Limit: heldPage,
	}
	seen := newHeldScan(*were)
	for more := true; more; {
		if !of.urgent && len(s.gone) > 0 { // a worker died, and behind a backlog this check can take long
			return true
		}
		runs, err := s.cfg.Store.Wakes(ctx, q)
		if err != nil {
			if ctx.Err() == nil {
				s.cfg.Logger.Error("read held runs", "error", err)
			}
			return false
		}
		if more = q.More(runs); more {
			q.After = runs[len(runs)-1].WakePos()
		}
		held, _ := split(runs, q.Wants)
		if !s.check(ctx, held, seen) {
			return false
		}
	}
	*were = seen.are
	return true
}

// checkSuspects checks the suspects of an earlier check, and says whether it could. It reads these runs
// alone: a check of all held runs may take long.
func (s *Scheduler) checkSuspects(ctx context.Context, were *suspects) bool {
	seen, ids := newHeldScan(*were), make([]carillon.RunID, 0, len(*were))
	for claim := range *were {
		ids = append(ids, claim.Run)
	}
	runs, err := s.cfg.Store.Runs(ctx, ids, false)
	if err != nil {
		if ctx.Err() == nil {
			s.cfg.Logger.Error("read runs that their workers do not list", "error", err)
		}
		return false
	}
	if !s.check(ctx, runs, seen) {
		return false
	}
	*were = seen.are
	return true
}

// checkSoon has everything checked once more in a moment: runs of a worker that is gone must not wait for the
// next check.
func (s *Scheduler) checkSoon(ctx context.Context) {
	await.For(ctx, retryWait)
	s.gone.Set()
}

// check takes back runs that no worker holds any more, and says whether it could: runs of workers that are
// gone and, if seen is given, of workers that do not know of them. If another node changes a run meanwhile,
// the next check finds it.
func (s *Scheduler) check(ctx context.Context, runs []carillon.Run, seen *heldScan) (done bool) {
	outcomes, err := s.abandoned(ctx, runs, seen)
	if err != nil && ctx.Err() == nil {
		s.cfg.Logger.Error("ask who holds what", "error", err)
	}
	judged := err == nil
	if len(outcomes) == 0 {
		return judged
	}
	gone, _ := split(runs, func(r *carillon.Run) bool { _, is := outcomes[r.ID]; return is })
	now := s.cfg.Clock.Now()
	candidates, err := s.cfg.Ledger.Candidates(ctx, gone, "")
	changes := make([]carillon.Change, 0, len(candidates))
	for _, candidate := range candidates {
		run := candidate.Run.Finish(candidate.Job, outcomes[candidate.Run.ID], now, rand.Float64())
		changes = append(changes, carillon.EndChange(candidate.Job, run, candidate.Guards))
	}
	var lost []int
	if err == nil {
		failpoint.At("takeback.before")
		lost, err = s.cfg.Ledger.Commit(ctx, changes)
		failpoint.At("takeback.after")
	}
	if err != nil && ctx.Err() == nil {
		s.cfg.Logger.Error("take runs back", "error", err, "runs", len(gone))
	}
	if err != nil {
		return false
	}
	if won := len(changes) - len(lost); won > 0 {
		s.cfg.Logger.Info("took back runs that no worker holds", "runs", won)
	}
	return judged
}

// abandoned says which held runs have lost their holder, and how: the worker is gone (a crash), or it does
// not know of the run (a loss). The runs were read before: a worker joins before it claims, so a worker that
// is not on a list made now is gone.
func (s *Scheduler) abandoned(
	ctx context.Context, runs []carillon.Run, seen *heldScan,
) (map[carillon.RunID]carillon.Outcome, error) {
	alone, unknown := s.cfg.Node == "", false
	for i := range runs {
		run := &runs[i]
		unknown = unknown ||
			run.State.Held() && !run.Unattended() && !s.members.has(run.Worker, alone)
	}
	if unknown {
		if err := s.refreshMembers(ctx, 0); err != nil {
			return nil, err
		}
	}
	var err error
	if seen != nil {
		seen.now = s.cfg.Clock.Now()
		if err = s.readHolds(ctx, runs, seen); err != nil {
			// It is not known what live workers hold; the runs of dead workers are taken back all the same.
			seen = nil
		}
	}
	outcomes := map[carillon.RunID]carillon.Outcome{}
	for i := range runs {
		switch run := &runs[i]; {
		case !run.State.Held() || run.Unattended():
		case !s.members.has(run.Worker, alone):
			outcomes[run.ID] = carillon.Outcome{
				Kind: carillon.OutcomeCrashed, Reason: "its worker " + run.Worker + " died",
			}
		case seen != nil && seen.unknown(run, time.Now()):
			outcomes[run.ID] = carillon.Outcome{
				Kind: carillon.OutcomeLost, Reason: "its worker " + run.Worker + " does not know of it",
			}
		}
	}
	return outcomes, err
}
