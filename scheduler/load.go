package scheduler

import (
	"context"
	"time"

	"github.com/carillon-run/carillon"
)

const (
	loadPage   = 5000
	refillWait = 50 * time.Millisecond
	retryWait  = time.Second
)

// load keeps the timeline told of everything up to the horizon. Its first pass reads all that is unfinished and due,
// which is also how runs of workers that died with the last process are found.
func (s *Scheduler) load(ctx context.Context) error {
	pos := carillon.WakePos{}
	for ctx.Err() == nil {
		if s.reload.taken() { // shards have come, and with a node that is gone went what only it knew of
			pos = carillon.WakePos{}
		}
		until := carillon.Now().Add(s.cfg.Horizon)
		if int64(until) > s.frontier.Load() { // it never goes back, even if the clock does
			s.frontier.Store(int64(until)) // before reading: see the field
		}
		var err error
		if pos, err = s.loadUntil(ctx, pos, until); err != nil && ctx.Err() == nil {
			s.cfg.Logger.Error("load what is due next", "error", err)
			pause(ctx, retryWait)
			continue
		}
		s.loaded.Store(true)
		s.loadRest(ctx, time.Now().Add(s.cfg.Horizon/2))
	}
	return nil
}

// loadUntil reads on from pos and returns how far it came.
func (s *Scheduler) loadUntil(ctx context.Context, pos carillon.WakePos, until carillon.Time) (carillon.WakePos, error) {
	for {
		runs, err := s.cfg.Store.Wakes(ctx, carillon.WakeQuery{Shards: s.members.shards(), Full: s.full(pos), After: pos, Until: until, Limit: loadPage})
		if err != nil {
			return pos, err
		}
		s.near(ctx, waiting(runs))
		s.check(ctx, runs)
		if len(runs) < loadPage {
			return carillon.WakePos{Wake: until + 1}, nil
		}
		pos = runs[len(runs)-1].WakePos()
	}
}

// loadRest fills lanes that have spilled until the horizon has to be moved.
func (s *Scheduler) loadRest(ctx context.Context, end time.Time) {
	for ctx.Err() == nil && time.Now().Before(end) && len(s.reload) == 0 {
		waiting, err := s.refill(ctx)
		switch {
		case err != nil && ctx.Err() == nil:
			s.cfg.Logger.Error("read on where memory had no room", "error", err)
			pause(ctx, retryWait)
		case waiting:
			pause(ctx, refillWait)
		default:
			s.untilSpill(ctx, time.Until(end))
		}
	}
}

// untilSpill waits until a lane spills, at most so long.
func (s *Scheduler) untilSpill(ctx context.Context, longest time.Duration) {
	timer := time.NewTimer(longest)
	defer timer.Stop()
	select {
	case <-s.spills:
		pause(ctx, refillWait) // it has just been full: without this a full lane would be read again and again
	case <-timer.C:
	case <-s.reload:
		s.reload.set() // load takes it
	case <-ctx.Done():
	}
}
