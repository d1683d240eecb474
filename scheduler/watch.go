package scheduler

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/carillon-run/carillon"
)

const (
	// sweepPage bounds what one sweep reads: it goes round in pages instead of reading a long backlog at once.
	sweepPage = 5000
	// handover is how long a claimed run may be unknown to the live worker that it was given to.
	handover = 5 * time.Second
	// joining is how long the word of a new worker may take to get here; its first claims may be quicker.
	joining = time.Second
	// overdue is how long after its wake a waiting run is told again to the timeline.
	overdue = 10 * time.Second
)

// members are those alive, and those who were, by id. Ids are never used again.
type members struct {
	mu    sync.Mutex
	alive map[string]bool
	left  map[string]bool
}

// set takes the new list and says whether somebody is gone.
func (m *members) set(list []carillon.Member) (gone bool) {
	alive := make(map[string]bool, len(list))
	for _, member := range list {
		alive[member.ID] = true
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for id := range m.alive {
		if !alive[id] {
			m.left[id] = true
			gone = true
		}
	}
	m.alive = alive
	return gone
}

// dead says whether the worker that made a claim is gone. One that was never heard of may have joined just now.
func (m *members) dead(worker string, claimed, now carillon.Time, alone bool) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	since := now.Sub(claimed) // negative if the clock was set back: then nobody knows, and a restart is likelier
	return !m.alive[worker] && (alone || m.left[worker] || since > joining || since < 0)
}

// follow keeps the list of members fresh, whatever else is going on: a sweep that takes long must not judge by an old
// one.
func (s *Scheduler) follow(ctx context.Context, watched <-chan []carillon.Member) error {
	for {
		select {
		case list, ok := <-watched:
			if !ok {
				return nil
			}
			if s.members.set(list) {
				s.gone.set()
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// watch takes runs back from workers that are gone, and goes round over all that should have been looked at by now:
// it scans states, not a side index, so nothing can be stuck for ever.
func (s *Scheduler) watch(ctx context.Context) error {
	tick := time.NewTicker(s.cfg.Sweep)
	defer tick.Stop()
	first := time.NewTimer(2 * joining) // for what was claimed right before another process died, see members.dead
	defer first.Stop()
	if s.cfg.Alone {
		first.Stop()
	}
	var pos carillon.WakePos
	for {
		select {
		case <-s.gone:
			pos = s.sweepAll(ctx)
		case <-first.C:
			pos = s.sweepAll(ctx)
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
	s.cfg.Ledger.Told(ctx) // a worker hears of its claims a moment after the store shows them
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
	case s.members.dead(run.Worker, run.Claimed, now, s.cfg.Alone):
		return carillon.Outcome{Kind: carillon.Crashed, Reason: "its worker " + run.Worker + " died"}, true
	case now.Sub(run.Claimed) > handover && !s.cfg.Holds(run):
		return carillon.Outcome{Kind: carillon.Lost, Reason: "its worker " + run.Worker + " does not know of it"}, true
	}
	return carillon.Outcome{}, false
}
