package scheduler

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/carillon-run/carillon"
)

const (
	// sweepPage bounds what one sweep reads: it goes round in pages instead of reading a long backlog at once.
	sweepPage = 5000
	// handover is how long a claimed run may be unknown to the live worker that it was given to.
	handover = 5 * time.Second
	// overdue is how long after its wake a waiting run is told again to the timeline.
	overdue = 10 * time.Second
)

// members are those alive, by id.
type members struct {
	ids atomic.Pointer[map[string]bool]
}

// set takes the new list and says whether somebody is gone.
func (m *members) set(list []carillon.Member) (gone bool) {
	ids := make(map[string]bool, len(list))
	for _, member := range list {
		ids[member.ID] = true
	}
	if was := m.ids.Swap(&ids); was != nil {
		for id := range *was {
			gone = gone || !ids[id]
		}
	}
	return gone
}

func (m *members) alive(id string) bool { return (*m.ids.Load())[id] }

// watch takes runs back from workers that are gone, and goes round over all that should have been looked at by now:
// it scans states, not a side index, so nothing can be stuck for ever.
func (s *Scheduler) watch(ctx context.Context, watched <-chan []carillon.Member) error {
	tick := time.NewTicker(s.cfg.Sweep)
	defer tick.Stop()
	var pos carillon.WakePos
	for {
		select {
		case list, ok := <-watched:
			if !ok {
				watched = nil
				continue
			}
			if s.members.set(list) {
				pos = s.sweepAll(ctx)
			}
		case <-tick.C:
			pos = s.sweep(ctx, pos)
		case <-ctx.Done():
			return nil
		}
	}
}

func (s *Scheduler) sweepAll(ctx context.Context) (pos carillon.WakePos) {
	for {
		if pos = s.sweep(ctx, pos); pos == (carillon.WakePos{}) {
			return pos
		}
	}
}

// sweep looks at one page of what is due and returns where the next begins: at the start again after the last.
func (s *Scheduler) sweep(ctx context.Context, pos carillon.WakePos) carillon.WakePos {
	now := carillon.Now()
	runs, err := s.cfg.Store.Wakes(ctx, carillon.WakeQuery{After: pos, Until: now, Limit: sweepPage})
	if err != nil {
		if ctx.Err() == nil {
			s.cfg.Logger.Error("sweep", "error", err)
		}
		return carillon.WakePos{}
	}
	s.check(ctx, runs)
	var late []carillon.Run
	for _, run := range waiting(runs) {
		if now.Sub(run.Wake) > overdue {
			late = append(late, run)
		}
	}
	s.near(ctx, late)
	if len(runs) < sweepPage {
		return carillon.WakePos{}
	}
	return runs[len(runs)-1].WakePos()
}

// check takes back what nobody holds any more. Whoever loses the race to do so is found by the next sweep.
func (s *Scheduler) check(ctx context.Context, runs []carillon.Run) {
	now := carillon.Now()
	var gone []carillon.Run
	outcomes := map[carillon.RunID]carillon.Outcome{}
	for i := range runs {
		if outcome, is := s.abandoned(&runs[i], now); is {
			gone = append(gone, runs[i])
			outcomes[runs[i].ID] = outcome
		}
	}
	if len(gone) == 0 {
		return
	}
	dues, err := s.cfg.Ledger.Dues(ctx, gone, "")
	changes := make([]carillon.Change, 0, len(dues))
	for _, due := range dues {
		run := due.Run.Finish(due.Job, outcomes[due.Run.ID], now, rand.Float64())
		changes = append(changes, carillon.Settle(run, due.Guard))
	}
	var lost []int
	if err == nil {
		lost, err = s.cfg.Ledger.Commit(ctx, changes)
	}
	if err != nil && ctx.Err() == nil {
		s.cfg.Logger.Error("take runs back", "error", err, "runs", len(gone))
		return
	}
	if won := len(changes) - len(lost); won > 0 {
		s.cfg.Logger.Info("took back runs that nobody holds", "runs", won)
	}
}

// abandoned says whether a held run has lost its holder: its worker is gone (a crash) or does not know of it (a loss).
func (s *Scheduler) abandoned(run *carillon.Run, now carillon.Time) (carillon.Outcome, bool) {
	switch {
	case !run.State.Held():
		return carillon.Outcome{}, false
	case !s.members.alive(run.Worker):
		return carillon.Outcome{Kind: carillon.Crashed, Reason: "its worker " + run.Worker + " died"}, true
	case now.Sub(run.Claimed) > handover && !s.cfg.Holds(run.Worker, run.ID, run.Attempt):
		return carillon.Outcome{Kind: carillon.Lost, Reason: "its worker " + run.Worker + " does not know of it"}, true
	}
	return carillon.Outcome{}, false
}
