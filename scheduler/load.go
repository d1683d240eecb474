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

// reading is how far the loader has come. Everything up to until was read, but for what due and behind have yet to read.
type reading struct {
	until  carillon.Time
	moved  time.Time // when the loader began to read up to it; zero: it has not yet
	due    []stretch // read as quickly as the store answers, as far as lanes have room
	size   int       // of the next page of due; 0: the first
	behind []stretch // behind full lanes
}

// load keeps the timeline told of everything up to the horizon. At its start it reads all that is unfinished and due,
// which is also how runs of workers that died with the last process are found.
func (s *Scheduler) load(ctx context.Context) error {
	var r reading
	for ctx.Err() == nil {
		if s.reload.taken() || r.until == 0 { // shards have come, and with a node that is gone went what only it knew of
			now := carillon.Now()
			r = reading{until: now, due: []stretch{{until: now}}}
		}
		if err := s.loadSome(ctx, &r); err != nil && ctx.Err() == nil {
			s.cfg.Logger.Error("load what is due next", "error", err)
			pause(ctx, retryWait)
		}
	}
	return nil
}

// loadSome does what is next. The future goes before what is due already: of that there may be millions, and while they are
// read the future must not run out. But the first page of what is due goes first, so that something starts.
func (s *Scheduler) loadSome(ctx context.Context, r *reading) error {
	switch {
	case r.size > 0 && time.Since(r.moved) >= s.cfg.Horizon/2:
		return s.advance(ctx, r)
	case len(r.due) > 0:
		return s.loadDue(ctx, r)
	}
	s.loaded.Store(true)
	end := r.moved.Add(s.cfg.Horizon / 2)
	if least := time.Now().Add(refillWait); end.Before(least) {
		end = least // a slow store must not keep full lanes from being filled
	}
	r.behind = s.loadRest(ctx, r.behind, end)
	return nil
}

// advance moves the horizon and reads all up to it. Where this process was held up for long, what became due meanwhile is left to
// loadDue. Where the clock was set back, other nodes may have committed runs that come before until and that they did not
// keep (see reach); so the future is read anew.
func (s *Scheduler) advance(ctx context.Context, r *reading) error {
	began, now := time.Now(), carillon.Now()
	st := stretch{after: carillon.WakePos{Wake: r.until + 1}, until: now.Add(s.cfg.Horizon)}
	due := r.due
	switch {
	case !r.moved.IsZero() && st.until.Sub(r.until) < began.Sub(r.moved)-skew/2:
		st.after.Wake = now
	case now.Sub(r.until) > s.cfg.Horizon:
		due = append(slices.Clip(due), stretch{after: st.after, until: now})
		st.after.Wake = now + 1
	}
	for size, more := firstPage, true; more; size = min(4*size, largePage) {
		var err error
		if more, err = s.loadPage(ctx, &st, size); err != nil {
			return err
		}
	}
	r.until, r.moved, r.due = st.until, began, due
	return nil
}

// stretch is a part of the order of wakes that was not read yet. What it has of some lanes need not be read there: they were full
// when the stretch was left, and are read on from before it to its end by refill.
type stretch struct {
	after carillon.WakePos
	until carillon.Time
	lanes []carillon.Lane
}

// loadDue reads a page of what is due. Where a lane has no room the rest is left to loadRest: it may have due runs of other
// lanes in it.
func (s *Scheduler) loadDue(ctx context.Context, r *reading) error {
	st := &r.due[0]
	more := true
	if st.lanes = s.full(st.after); len(st.lanes) > 0 {
		r.behind, more = append(r.behind, *st), false
	} else {
		var err error
		if more, err = s.loadPage(ctx, st, max(r.size, firstPage)); err != nil {
			return err
		}
	}
	r.size = min(max(4*r.size, 4*firstPage), largePage)
	if !more {
		r.due = r.due[1:]
	}
	return nil
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
	s.check(ctx, runs, nil)
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
