package scheduler

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/await"
)

const (
	// sweepPage bounds how much one sweep reads: sweep goes round in pages instead of reading a long backlog
	// at once.
	sweepPage = 5000
	// sweptLines is how many lines one sweep has looked at.
	sweptLines = 1000
	// overdue is how long after its wake a waiting run is passed on again.
	overdue = 10 * time.Second
)

// sweep goes round over all waiting runs that should have been passed on by now. It scans the states of runs,
// not a side index, so no run can be stuck for ever.
func (s *Scheduler) sweep(ctx context.Context) error {
	var pos carillon.WakePos
	var line carillon.HoldName
	for await.For(ctx, s.cfg.Sweep) {
		line = s.sweepLines(ctx, line)
		shards := s.members.shards()
		if pos == (carillon.WakePos{}) || s.floor.isOfOther(shards) {
			pos = s.floor.start(shards)
		}
		pos = s.sweepNext(ctx, pos, shards)
	}
	return nil
}

// floor is where unfinished runs began at the last check. Rounds begin there: before it there can be many
// ended runs that the store could not clean up yet. Now and then a round begins at the very beginning, since
// a run can be added there.
type floor struct {
	mu     sync.Mutex
	pos    carillon.WakePos
	shards []int     // that pos is for; others may begin earlier
	until  time.Time // when to begin at the beginning again
}

const (
	floorTime = 5 * time.Minute
	// floorAge is how far behind the present the floor stays: clocks differ.
	floorAge = time.Minute
)

// start is where a round over some shards begins.
func (f *floor) start(shards []int) carillon.WakePos {
	f.mu.Lock()
	defer f.mu.Unlock()
	if time.Now().After(f.until) || f.other(shards) {
		return carillon.WakePos{}
	}
	return f.pos
}

func (f *floor) isOfOther(shards []int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.other(shards)
}

func (f *floor) other(shards []int) bool {
	return !slices.Equal(f.shards, shards) || (f.shards == nil) != (shards == nil) // nil: all
}

// raise notes where the runs of the first page of a round begin.
func (f *floor) raise(from carillon.WakePos, shards []int, runs []carillon.Run, now carillon.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case from == (carillon.WakePos{}):
		f.until, f.shards = time.Now().Add(floorTime), shards
	case from != f.pos || f.other(shards):
		return // a later page
	}
	f.pos = carillon.WakePos{Wake: now.Add(-floorAge)}
	if len(runs) > 0 {
		if first := before(runs[0].WakePos()); first.Less(f.pos) {
			f.pos = first
		}
	}
}

// sweepNext checks one page of due runs and returns where the next page begins: at the start again after the
// last page.
func (s *Scheduler) sweepNext(ctx context.Context, pos carillon.WakePos, shards []int) carillon.WakePos {
	now := s.cfg.Clock.Now()
	runs, err := s.cfg.Store.Wakes(ctx, carillon.WakeQuery{
		Shards: shards, After: pos, Until: now, Limit: sweepPage,
	})
	if err != nil {
		if ctx.Err() == nil {
			s.cfg.Logger.Error("sweep", "error", err)
		}
		return carillon.WakePos{}
	}
	s.floor.raise(pos, shards, runs, now)
	s.seeLates(runs)
	late, _ := split(woken(runs), func(r *carillon.Run) bool { return now.Sub(r.Wake) > overdue })
	// Runs for which there is no worker come to a closed gate here: else they would wait there for a claim.
	gated, late := split(late, func(r *carillon.Run) bool { return !r.Unattended() && s.mayBeGated(r) })
	s.queueDecision(gated)
	s.schedule(ctx, late)
	if len(runs) < sweepPage {
		return carillon.WakePos{}
	}
	return runs[len(runs)-1].WakePos()
}

// sweepLines has the lines of one page looked at, in case the word that something became free for them was
// lost. It returns where the next page begins: at the start again after the last page.
func (s *Scheduler) sweepLines(ctx context.Context, after carillon.HoldName) carillon.HoldName {
	names, err := s.cfg.Store.Holds(ctx, after, sweptLines)
	if err != nil && ctx.Err() == nil {
		s.cfg.Logger.Error("sweep lines", "error", err)
	}
	s.lookAtLines(names)
	if len(names) < sweptLines {
		return carillon.HoldName{}
	}
	return names[len(names)-1]
}
