package scheduler

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/await"
)

const (
	// followEvery is how often the scheduler looks whether a gate opens.
	followEvery = 250 * time.Millisecond
	// gateHeard is after how long every node knows that a gate was opened or closed, unless its store does
	// not answer. Runs that left earlier could be stopped again by a node that has not heard of it yet.
	gateHeard = 600 * time.Millisecond
	// gateSettled is after how long no node stops runs at a gate that was opened, even if its clock is
	// behind.
	gateSettled = skew
	// tidyEvery is how often the scheduler looks for releases that an older node has left behind.
	tidyEvery = 10 * time.Second
)

// Gates are the gates that this node knows.
type Gates interface {
	AllGates() []*carillon.Gate
	GateOf(namespace, id string) *carillon.Gate
	// MayBeClosed says whether a closed gate may match a run, by what the run itself tells.
	MayBeClosed(run *carillon.Run) bool
	// ForgetGate removes a gate that is open, and that no run waits for.
	ForgetGate(ctx context.Context, g *carillon.Gate) error
	// StoppedGate notes that the runs that a gate has to stop were asked to.
	StoppedGate(ctx context.Context, g *carillon.Gate) error
	// BeginRelease makes the release of a gate that opens an operation, if it is none.
	BeginRelease(ctx context.Context, g *carillon.Gate) error
	// TidyReleases ends the operations of releases whose gate is gone, or does not name them.
	TidyReleases(ctx context.Context, owns func(shard int) bool) error
}

// gates is what the scheduler does for gates: it lets the runs leave that waited for one, and asks running
// runs to stop.
type gates struct {
	known   Gates // nil: there are none
	changed await.Signal

	mu    sync.Mutex
	swept map[carillon.HoldName]bool // lines of gates, that a sweep has found
	busy  map[carillon.HoldName]bool // that a goroutine works for
	tidy  carillon.Time              // when the operations of releases are looked at next
}

func newGates() gates {
	return gates{
		changed: await.NewSignal(), swept: map[carillon.HoldName]bool{}, busy: map[carillon.HoldName]bool{},
	}
}

// UseGates tells the scheduler of gates. Call it before Run.
func (s *Scheduler) UseGates(known Gates) { s.gates.known = known }

// GatesChanged has the scheduler look at the gates.
func (s *Scheduler) GatesChanged() { s.gates.changed.Set() }

func ofGate(run *carillon.Run) bool { _, is := carillon.GateOfHold(run.Hold); return is }

func (s *Scheduler) mayBeGated(run *carillon.Run) bool {
	return s.gates.known != nil && s.gates.known.MayBeClosed(run)
}

// lookAtLines has lines looked at that a sweep has found, of limits and of gates.
func (s *Scheduler) lookAtLines(names []carillon.HoldName) {
	var limits []carillon.HoldName
	s.gates.mu.Lock()
	for _, name := range names {
		if _, is := carillon.GateOfHold(name.Hold); is {
			s.gates.swept[name] = true
		} else {
			limits = append(limits, name)
		}
	}
	s.gates.mu.Unlock()
	s.lines.look(limits...)
}

// followGates works for each gate of this node that opens, or that has to stop runs, in a goroutine of its
// own: a release that keeps a low rate takes long.
func (s *Scheduler) followGates(ctx context.Context) error {
	if s.gates.known == nil {
		return nil
	}
	var working sync.WaitGroup
	defer working.Wait()
	for ctx.Err() == nil {
		now := s.cfg.Clock.Now()
		for name, work := range s.gateWork(now) {
			working.Go(func() {
				defer s.gates.done(name)
				if err := work(ctx); err != nil && ctx.Err() == nil && !errors.Is(err, carillon.ErrConflict) {
					s.cfg.Logger.Error("work for a gate: trying again", "error", err, "gate", name.Hold)
					await.For(ctx, retryWait)
				}
			})
		}
		wait, cancel := context.WithTimeout(ctx, followEvery)
		select {
		case <-s.gates.changed:
		case <-wait.Done():
		}
		cancel()
	}
	return nil
}

// gateWork is what there is to do for gates, and begins it. The caller must call done for each.
func (s *Scheduler) gateWork(now carillon.Time) map[carillon.HoldName]func(context.Context) error {
	todo := map[carillon.HoldName]func(context.Context) error{}
	for _, g := range s.gates.known.AllGates() {
		name := carillon.HoldName{Namespace: g.Namespace, Hold: g.Hold()}
		switch opened := g.OpenedAt(now); {
		case !s.members.owns(g.Shard()):
		case opened != 0:
			todo[name] = func(ctx context.Context) error { return s.release(ctx, name) }
		case opened == 0 && g.Running == carillon.GateStop && !g.Stopped:
			todo[name] = func(ctx context.Context) error { return s.stopFor(ctx, g) }
		}
	}
	s.gates.mu.Lock()
	defer s.gates.mu.Unlock()
	for name := range s.gates.swept {
		id, _ := carillon.GateOfHold(name.Hold)
		lost := &carillon.Gate{ID: id, Namespace: name.Namespace}
		if s.gates.known.GateOf(name.Namespace, id) == nil && s.members.owns(lost.Shard()) {
			todo[name] = func(ctx context.Context) error { return s.release(ctx, name) }
		}
	}
	clear(s.gates.swept)
	if now >= s.gates.tidy {
		s.gates.tidy = now.Add(tidyEvery)
		todo[carillon.HoldName{}] = func(ctx context.Context) error {
			return s.gates.known.TidyReleases(ctx, s.members.owns)
		}
	}
	maps.DeleteFunc(todo, func(name carillon.HoldName, _ func(context.Context) error) bool {
		return s.gates.busy[name]
	})
	for name := range todo {
		s.gates.busy[name] = true
	}
	return todo
}

func (g *gates) done(name carillon.HoldName) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.busy, name)
}

// stopFor asks the runs to stop that workers hold and a gate matches, until there are none and all nodes know
// that the gate is closed.
func (s *Scheduler) stopFor(ctx context.Context, g *carillon.Gate) error {
	for ctx.Err() == nil {
		now := s.cfg.Clock.Now()
		asked, err := s.stopPass(ctx, g)
		switch {
		case err != nil:
			return err
		case asked == 0 && now.Sub(g.At) >= gateSettled:
			return s.gates.known.StoppedGate(ctx, g)
		case !s.members.owns(g.Shard()) || s.gates.known.GateOf(g.Namespace, g.ID) != g:
			return nil // another node goes on, or the gate was opened
		case asked == 0:
			await.For(ctx, followEvery)
		}
	}
	return nil
}

// stopPass goes once over all runs that workers hold, and returns how many it wanted to stop.
func (s *Scheduler) stopPass(ctx context.Context, g *carillon.Gate) (asked int, err error) {
	q := carillon.WakeQuery{Held: true, Until: carillon.Never, Limit: releasePage}
	for {
		page, err := s.cfg.Store.Wakes(ctx, q)
		if err != nil {
			return asked, err
		}
		held := slices.DeleteFunc(slices.Clone(page), func(r carillon.Run) bool {
			return !r.State.Held() || r.Namespace != g.Namespace
		})
		candidates, err := s.cfg.Ledger.Candidates(ctx, held, "")
		if err != nil {
			return asked, err
		}
		var changes []carillon.Change
		for i := range candidates {
			if c, needed := candidates[i].StopFor(g); needed {
				changes = append(changes, c)
			}
		}
		if _, err := s.cfg.Ledger.Commit(ctx, changes); err != nil {
			return asked, err
		}
		if asked += len(changes); !q.More(page) {
			return asked, nil
		}
		q.After = page[len(page)-1].WakePos()
	}
}
