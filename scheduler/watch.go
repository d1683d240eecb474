package scheduler

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/carillon-run/carillon"
)

const (
	// sweepPage bounds what one sweep reads: it goes round in pages instead of reading a long backlog at once.
	sweepPage = 5000
	// overdue is how long after its wake a waiting run is told again to the timeline.
	overdue = 10 * time.Second
)

// watch takes runs back from workers that are gone, and goes round over all that should have been looked at by now:
// it scans states, not a side index, so nothing can be stuck for ever.
func (s *Scheduler) watch(ctx context.Context) error {
	tick := time.NewTicker(s.cfg.Sweep)
	defer tick.Stop()
	var pos carillon.WakePos
	for {
		select {
		case <-s.gone:
			pos = s.sweepAll(ctx)
		case <-tick.C:
			if pos == (carillon.WakePos{}) {
				pos = s.floor.start()
			}
			pos = s.sweep(ctx, pos)
		case <-ctx.Done():
			return nil
		}
	}
}

// floor is where what is unfinished began when somebody looked last. Rounds begin there: before it may lie much that has ended
// and that the store could not clean up yet. Now and then one begins at the very beginning, since a run may be added there.
type floor struct {
	pos   carillon.WakePos
	until time.Time // when to begin at the beginning again
}

const (
	floorTime = 5 * time.Minute
	// floorAge is how far behind the present it stays: clocks differ.
	floorAge = time.Minute
)

func (f *floor) start() carillon.WakePos {
	if time.Now().After(f.until) {
		return carillon.WakePos{}
	}
	return f.pos
}

// raise notes where the runs of the first page of a round begin.
func (f *floor) raise(from carillon.WakePos, runs []carillon.Run, now carillon.Time) {
	switch {
	case from == (carillon.WakePos{}):
		f.until = time.Now().Add(floorTime)
	case from != f.pos:
		return // a later page
	}
	f.pos = carillon.WakePos{Wake: now.Add(-floorAge)}
	if len(runs) > 0 {
		if first := before(runs[0].WakePos()); first.Less(f.pos) {
			f.pos = first
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
	runs, err := s.cfg.Store.Wakes(ctx, carillon.WakeQuery{Shards: s.members.shards(), After: pos, Until: now, Limit: sweepPage})
	if err != nil {
		if ctx.Err() == nil {
			s.cfg.Logger.Error("sweep", "error", err)
			s.again(ctx)
		}
		return carillon.WakePos{}
	}
	s.floor.raise(pos, runs, now)
	if !s.check(ctx, runs) {
		s.again(ctx)
	}
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

// again has everything swept once more in a moment: who is gone must not wait for the next round.
func (s *Scheduler) again(ctx context.Context) {
	pause(ctx, retryWait)
	s.gone.set()
}

// check takes back what nobody holds any more, and says whether it could. Whoever loses the race to do so is found by the
// next sweep.
func (s *Scheduler) check(ctx context.Context, runs []carillon.Run) (done bool) {
	now := carillon.Now()
	holders, err := s.holders(ctx, runs, now)
	if err != nil {
		if ctx.Err() == nil {
			s.cfg.Logger.Error("ask who holds what", "error", err)
		}
		return false
	}
	var gone []carillon.Run
	outcomes := map[carillon.RunID]carillon.Outcome{}
	for i := range runs {
		if outcome, is := holders.abandoned(&runs[i], now); is {
			gone = append(gone, runs[i])
			outcomes[runs[i].ID] = outcome
		}
	}
	if len(gone) == 0 {
		return true
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
	}
	if err != nil {
		return false
	}
	if won := len(changes) - len(lost); won > 0 {
		s.cfg.Logger.Info("took back runs that nobody holds", "runs", won)
	}
	return true
}
