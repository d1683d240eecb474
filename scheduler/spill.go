package scheduler

import (
	"context"
	"sync"
	"time"

	"github.com/carillon-run/carillon"
)

// Memory is bounded per lane, never over all: the backlog of one lane must not hide another's run. What a lane has no
// room for is not held at all; the scheduler only remembers from where on the store knows more of that lane, and reads
// on from there when there is room again.

// roomy leaves out runs of lanes that have spilled, if they come after the place where the lane will be read on: taken
// now, they would overtake everything that waits in the store.
func (s *Scheduler) roomy(runs []carillon.Run) []carillon.Run {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.overflow) == 0 {
		return runs
	}
	kept := make([]carillon.Run, 0, len(runs))
	for i := range runs {
		if from, spilled := s.overflow[runs[i].Lane()]; !spilled || runs[i].WakePos().Less(from) {
			kept = append(kept, runs[i])
		}
	}
	return kept
}

// spill notes for each lane the earliest run that it had no room for.
func (s *Scheduler) spill(runs []carillon.Run, refused []int) {
	if len(refused) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, i := range refused {
		lane, pos := runs[i].Lane(), runs[i].WakePos()
		if from, spilled := s.overflow[lane]; !spilled || pos.Less(from) {
			s.overflow[lane] = pos
		}
	}
}

// spilled is a copy of the lanes that have more in the store.
func (s *Scheduler) spilled() map[carillon.Lane]carillon.WakePos {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.overflow) == 0 {
		return nil
	}
	lanes := make(map[carillon.Lane]carillon.WakePos, len(s.overflow))
	for lane, from := range s.overflow {
		lanes[lane] = from
	}
	return lanes
}

const refillPage = 2000

// refill reads on where lanes have spilled. It says whether any lane is still waiting for room.
func (s *Scheduler) refill(ctx context.Context) (waiting bool, err error) {
	for lane, from := range s.spilled() {
		for ctx.Err() == nil {
			more, err := s.refillLane(ctx, lane, from)
			if err != nil {
				return true, err
			}
			if more == from {
				break // no room yet, or nothing left
			}
			from = more
		}
	}
	return len(s.spilled()) > 0, nil
}

// refillLane adds a page of the lane and returns from where to go on. It returns from itself when the lane took nothing,
// and also when there is nothing left: then the lane has caught up and is no longer marked.
func (s *Scheduler) refillLane(ctx context.Context, lane carillon.Lane, from carillon.WakePos) (carillon.WakePos, error) {
	s.mu.Lock()
	delete(s.overflow, lane) // from here on Route adds again; what it adds and the page has too is one
	s.mu.Unlock()
	q := carillon.WakeQuery{Lane: &lane, After: before(from), Until: carillon.Time(s.frontier.Load()), Limit: refillPage}
	runs, err := s.cfg.Store.Wakes(ctx, q)
	if err != nil {
		s.mark(lane, from)
		return from, err
	}
	s.near(ctx, waiting(runs))
	s.mu.Lock()
	at, spilled := s.overflow[lane]
	s.mu.Unlock()
	switch {
	case spilled:
		return at, nil // as far as there was room
	case len(runs) < refillPage:
		return from, nil
	}
	next := runs[len(runs)-1].WakePos()
	s.mark(lane, next)
	return next, nil
}

func (s *Scheduler) mark(lane carillon.Lane, at carillon.WakePos) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if from, spilled := s.overflow[lane]; !spilled || at.Less(from) {
		s.overflow[lane] = at
	}
}

// before is the position right before another, so that a query after it begins with that one.
func before(p carillon.WakePos) carillon.WakePos {
	p.ID.Job--
	return p
}

func waiting(runs []carillon.Run) []carillon.Run {
	kept := runs[:0:0]
	for i := range runs {
		if runs[i].State == carillon.Waiting && !runs[i].Has(carillon.OnHold) {
			kept = append(kept, runs[i])
		}
	}
	return kept
}

// signal wakes one loop; setting it twice is once.
type signal chan struct{}

func newSignal() signal { return make(signal, 1) }

func (s signal) set() {
	select {
	case s <- struct{}{}:
	default:
	}
}

// pile collects things for one loop to take all at once.
type pile[T any] struct {
	mu    *sync.Mutex
	items *[]T
	ready signal
}

func newPile[T any]() pile[T] { return pile[T]{new(sync.Mutex), new([]T), newSignal()} }

func (p pile[T]) add(items ...T) {
	if len(items) == 0 {
		return
	}
	p.mu.Lock()
	*p.items = append(*p.items, items...)
	p.mu.Unlock()
	p.ready.set()
}

func (p pile[T]) take() []T {
	p.mu.Lock()
	defer p.mu.Unlock()
	items := *p.items
	*p.items = nil
	return items
}

// pause waits, and says whether there is still time.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
