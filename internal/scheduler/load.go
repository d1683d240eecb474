package scheduler

import (
	"context"
	"slices"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/await"
)

const (
	// The first page is small, so that the first due runs start soon. Then pages grow: the store reads the
	// shards of a page side by side, and with a small page it reads more runs that do not belong to the page.
	firstPage = 2000
	largePage = 20_000
	pageWait  = 100 * time.Millisecond
	retryWait = time.Second
	// maxFull is how many full lanes a query names: a store compares each row with all of them. Memory does
	// not admit the runs of the others.
	maxFull = 32
)

// reading is how far the loader has come. It has read all runs up to until, except for the stretches in due
// and behind.
type reading struct {
	until  carillon.Time
	moved  time.Time // when the loader began to read up to until; zero: not yet
	due    []stretch // read as quickly as the store answers, as far as lanes have room
	size   int       // of the next page of due; 0: of the first page
	behind []stretch // left out while lanes were full; loadRest reads them
}

// load tells the timeline of all runs up to the horizon. At its start it reads all unfinished runs that are
// due; this also finds the runs of workers that died with the last process.
func (s *Scheduler) load(ctx context.Context) error {
	var r reading
	for ctx.Err() == nil {
		// New shards have come, or a node has left, and with it the knowledge of runs that only it knew of.
		if s.reload.Taken() || r.until == 0 {
			now := s.cfg.Clock.Now()
			r = reading{until: now, due: []stretch{{until: now}}}
			s.lates.scan.Set()
		}
		if err := s.loadSome(ctx, &r); err != nil && ctx.Err() == nil {
			s.cfg.Logger.Error("load what is due next", "error", err)
			await.For(ctx, retryWait)
		}
	}
	return nil
}

// loadSome does the next step. The future goes before runs that are due already: there can be millions of
// those, and the future must not run out while they are read. But the first page of due runs goes before
// everything, so that something starts.
func (s *Scheduler) loadSome(ctx context.Context, r *reading) error {
	switch {
	case r.size > 0 && time.Since(r.moved) >= s.cfg.Horizon/2:
		return s.advance(ctx, r)
	case len(r.due) > 0:
		return s.loadDue(ctx, r)
	}
	s.loaded.Store(true)
	end := r.moved.Add(s.cfg.Horizon / 2)
	if least := time.Now().Add(pageWait); end.Before(least) {
		end = least // a slow store must not keep paged lanes waiting
	}
	r.behind = s.loadRest(ctx, r.behind, end)
	return nil
}

// advance moves the horizon and reads all runs up to it. If this process was held up for long, advance leaves
// the runs that became due meanwhile to loadDue. If the clock was set back, other nodes may have committed
// runs that come before until without keeping them (see reach); so advance reads the future again.
func (s *Scheduler) advance(ctx context.Context, r *reading) error {
	began, now := time.Now(), s.cfg.Clock.Now()
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

// stretch is a part of the order of wakes that was not read yet. lanes are those that were paged at some time
// while it was read: readTail reads them from an earlier position to the end of the stretch, and loadPage
// passes over them, so that each run is read once.
type stretch struct {
	after carillon.WakePos
	until carillon.Time
	lanes []carillon.Lane
}

// loadDue reads a page of due runs. If a lane is full, loadDue leaves the rest of the stretch to loadRest:
// the rest can have due runs of other lanes in it.
func (s *Scheduler) loadDue(ctx context.Context, r *reading) error {
	st := &r.due[0]
	more := true
	if st.lanes = s.backlog.pagedBefore(st.after); len(st.lanes) > 0 {
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

// loadPage reads the next page of a stretch, and says whether the stretch has more.
func (s *Scheduler) loadPage(ctx context.Context, st *stretch, size int) (more bool, err error) {
	for _, lane := range s.backlog.pagedBefore(st.after) {
		if !slices.Contains(st.lanes, lane) {
			st.lanes = append(st.lanes, lane)
		}
	}
	q := carillon.WakeQuery{
		Shards: s.members.shards(), Full: st.lanes[:min(len(st.lanes), maxFull)], After: st.after,
		Until: st.until, Limit: size,
	}
	runs, err := s.cfg.Store.Wakes(ctx, q)
	if err != nil {
		return true, err
	}
	wanted, _ := split(runs, q.Wants) // a store can return other runs too
	s.seeLates(wanted)
	s.schedule(ctx, woken(wanted))
	s.check(ctx, runs, nil)
	if !q.More(runs) {
		return false, nil
	}
	st.after = runs[len(runs)-1].WakePos()
	return true, nil
}

// loadRest reads on in paged lanes until the horizon has to move. Beside that it reads what is behind full
// lanes, slowly: workers are busy with those lanes.
func (s *Scheduler) loadRest(ctx context.Context, behind []stretch, end time.Time) []stretch {
	var next time.Time // when to read behind full lanes again: that gets a quarter of the time
	for ctx.Err() == nil && time.Now().Before(end) && len(s.reload) == 0 {
		err := s.readOn(ctx, end)
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
			await.For(ctx, retryWait)
		case len(behind) > 0:
			await.For(ctx, min(max(time.Until(next), time.Millisecond), pageWait))
		case len(s.backlog.paged()) > 0:
			await.For(ctx, pageWait)
		default:
			s.untilOverflow(ctx, time.Until(end))
		}
	}
	return behind
}

// untilOverflow waits until a lane overflows, but not longer than longest.
func (s *Scheduler) untilOverflow(ctx context.Context, longest time.Duration) {
	timer := time.NewTimer(longest)
	defer timer.Stop()
	select {
	case <-s.backlog.overflowed:
		// The lane was full a moment ago: without this pause it would be read again and again.
		await.For(ctx, pageWait)
	case <-timer.C:
	case <-s.reload:
		s.reload.Set() // load takes it
	case <-ctx.Done():
	}
}

// readOn reads the tails of paged lanes as far as memory has room, until end at most.
func (s *Scheduler) readOn(ctx context.Context, end time.Time) (err error) {
	for _, key := range s.backlog.paged() {
		for more := true; more && ctx.Err() == nil && len(s.reload) == 0 && time.Now().Before(end); {
			if more, err = s.readTail(ctx, key); err != nil {
				return err
			}
		}
	}
	return nil
}

// readTail reads the next page of a paged lane, if there is room. It says whether there was room for the
// whole page and there is more.
func (s *Scheduler) readTail(ctx context.Context, key laneKey) (more bool, err error) {
	first, paged := s.backlog.first(key)
	if !paged || first != nil && !s.hasRoom(ctx, first) {
		return false, nil
	}
	tail, size := s.backlog.resume(key)
	shards := s.members.shards()
	if tail.foreign {
		shards = nil
	}
	page, err := s.cfg.Store.Wakes(ctx, carillon.WakeQuery{
		Shards: shards, Lane: &key.Lane, AnyShare: key.anyShare, After: before(tail.from),
		Until: s.reach(s.cfg.Clock.Now()), Limit: size,
	})
	if err != nil {
		s.backlog.unread(key, tail)
		return false, err
	}
	s.seeLates(page)
	s.schedule(ctx, woken(page))
	return s.backlog.resumed(key, tail, page, size), nil
}

// hasRoom tries to add a run where it belongs by now, and says whether the lane had room for it.
func (s *Scheduler) hasRoom(ctx context.Context, run *carillon.Run) bool {
	if run.Hold != "" {
		return true // its line has room
	}
	if run.Wake <= s.cfg.Clock.Now() { // also if it needs a decision: the dispatcher decides when it claims
		refused, err := s.cfg.Queue.Push(ctx, []carillon.Run{*run})
		return err == nil && len(refused) == 0
	}
	refused, err := s.cfg.Timeline.Add(ctx, []carillon.Run{*run})
	s.woken.Set()
	return err == nil && len(refused) == 0
}

// before is the position right before p, so that a query after it begins with p.
func before(p carillon.WakePos) carillon.WakePos {
	p.ID.Job--
	return p
}
