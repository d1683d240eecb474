package scheduler

import (
	"context"
	"slices"
	"time"

	"github.com/carillon-run/carillon"
)

const (
	// The first page is small, so that what is due first starts soon; then they grow: the shards of a page are read beside
	// each other, and of a small one more is read that does not belong to it.
	firstPage  = 2000
	largePage  = 20_000
	refillWait = 100 * time.Millisecond
	retryWait  = time.Second
)

// load keeps the timeline told of everything up to the horizon. Its first pass reads all that is unfinished and due,
// which is also how runs of workers that died with the last process are found.
func (s *Scheduler) load(ctx context.Context) error {
	pos := carillon.WakePos{}
	var behind []stretch
	for ctx.Err() == nil {
		if s.reload.taken() { // shards have come, and with a node that is gone went what only it knew of
			pos, behind = carillon.WakePos{}, nil
		}
		now := carillon.Now()
		until := now.Add(s.cfg.Horizon)
		if int64(until) > s.frontier.Load() { // it never goes back, even if the clock does
			s.frontier.Store(int64(until)) // before reading: see the field
		}
		more, err := s.loadAll(ctx, stretch{after: pos, until: until}, now)
		if err != nil && ctx.Err() == nil {
			s.cfg.Logger.Error("load what is due next", "error", err)
			pause(ctx, retryWait)
			continue
		}
		pos, behind = carillon.WakePos{Wake: until + 1}, append(behind, more...)
		s.loaded.Store(true)
		behind = s.loadRest(ctx, behind, time.Now().Add(s.cfg.Horizon/2))
	}
	return nil
}

// stretch is a part of the order of wakes that was not read yet. What it has of some lanes need not be read there: they were full
// when the stretch was left, and are read on from before it to its end by refill.
type stretch struct {
	after carillon.WakePos
	until carillon.Time
	lanes []carillon.Lane
}

// loadAll reads a stretch: what is due as far as its lanes have room, for of that there may be millions, and all of what comes
// next. What is left may have due runs of other lanes in it.
func (s *Scheduler) loadAll(ctx context.Context, st stretch, now carillon.Time) (left []stretch, err error) {
	if st.after.Wake <= now {
		due := stretch{after: st.after, until: now}
		st.after = carillon.WakePos{Wake: now + 1}
		for size, more := firstPage, true; more; size = min(4*size, largePage) {
			if due.lanes = s.full(due.after); len(due.lanes) > 0 {
				left = append(left, due)
				break
			}
			if more, err = s.loadPage(ctx, &due, size); err != nil {
				return nil, err
			}
		}
	}
	for size, more := firstPage, true; more; size = min(4*size, largePage) {
		if more, err = s.loadPage(ctx, &st, size); err != nil {
			return nil, err
		}
	}
	return left, nil
}

// loadPage reads on in a stretch, and says whether there is more of it.
func (s *Scheduler) loadPage(ctx context.Context, st *stretch, size int) (more bool, err error) {
	for _, lane := range s.full(st.after) {
		if !slices.Contains(st.lanes, lane) {
			st.lanes = append(st.lanes, lane)
		}
	}
	q := carillon.WakeQuery{Shards: s.members.shards(), Full: st.lanes, After: st.after, Until: st.until, Limit: size}
	runs, err := s.cfg.Store.Wakes(ctx, q)
	if err != nil {
		return true, err
	}
	wanted, _ := split(runs, q.Wants) // a store may return others too
	s.near(ctx, waiting(wanted))
	s.check(ctx, runs)
	if !q.More(runs) {
		return false, nil
	}
	st.after = runs[len(runs)-1].WakePos()
	return true, nil
}

// loadRest fills lanes that have spilled until the horizon has to be moved. Beside that it looks through what is behind full
// lanes, taking its time: others are working on those.
func (s *Scheduler) loadRest(ctx context.Context, behind []stretch, end time.Time) []stretch {
	var next time.Time // when to look behind, a quarter of the time
	for ctx.Err() == nil && time.Now().Before(end) && len(s.reload) == 0 {
		waiting, err := s.refill(ctx, end)
		if began := time.Now(); err == nil && len(behind) > 0 && !began.Before(next) {
			var more bool
			if more, err = s.loadPage(ctx, &behind[0], firstPage); !more {
				behind = behind[1:]
			}
			next = time.Now().Add(3 * time.Since(began))
		}
		switch {
		case err != nil && ctx.Err() == nil:
			s.cfg.Logger.Error("read on where memory had no room", "error", err)
			pause(ctx, retryWait)
		case len(behind) > 0:
			pause(ctx, min(max(time.Until(next), time.Millisecond), refillWait))
		case waiting:
			pause(ctx, refillWait)
		default:
			s.untilSpill(ctx, time.Until(end))
		}
	}
	return behind
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
