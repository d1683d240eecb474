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
	releasePage = 1000
	// releaseEvery is how often runs leave a gate by its rate.
	releaseEvery = 50 * time.Millisecond
	// maxBehind bounds how many runs leave at once after the store has not answered for a while.
	maxBehind = time.Second
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
}

// gates is what the scheduler does for gates: it lets the runs leave that waited for one, and asks running
// runs to stop.
type gates struct {
	known   Gates // nil: there are none
	changed await.Signal

	mu    sync.Mutex
	swept map[carillon.HoldName]bool // lines of gates, that a sweep has found
	busy  map[carillon.HoldName]bool // that a goroutine works for
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
		case opened != 0 && (s.cfg.Node == "" || now.Sub(opened) >= gateHeard):
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

// release lets the runs leave that wait for a gate, in the order of their due times and by its rate, and
// forgets the gate after the last one. The gate may be gone already: a node that had not heard of that has
// stopped a run there. Everything that a release must know is in the store, so any node can go on with it.
func (s *Scheduler) release(ctx context.Context, name carillon.HoldName) error {
	id, _ := carillon.GateOfHold(name.Hold)
	pace, after := pace{last: time.Now(), owed: 1}, carillon.RunID{}
	for ctx.Err() == nil {
		now, g := s.cfg.Clock.Now(), s.gates.known.GateOf(name.Namespace, id)
		var rate carillon.Rate
		if g != nil {
			rate = g.Rate
		}
		owner := carillon.Gate{ID: id, Namespace: name.Namespace}
		if g != nil && g.State(now) == carillon.GateClosed || !s.members.owns(owner.Shard()) {
			return nil // it was closed again, or another node goes on
		}
		room, wait := pace.room(rate, time.Now())
		if room == 0 {
			await.For(ctx, wait)
			continue
		}
		first := after.IsZero()
		left, last, err := s.releaseNext(ctx, name, after, room)
		if err != nil {
			return err
		}
		pace.took(left)
		switch after = last; {
		case left > 0:
		case !last.IsZero(): // all of them have changed meanwhile
			await.For(ctx, releaseEvery)
		case !first: // from the beginning: others may have come
		case g == nil:
			return nil
		case now.Sub(g.OpenedAt(now)) >= gateSettled:
			return s.gates.known.ForgetGate(ctx, g)
		default:
			await.For(ctx, releaseEvery)
		}
	}
	return nil
}

// releaseNext lets the first runs of a line behind another one leave. It returns how many left, and the last
// one that was there; zero: none was.
func (s *Scheduler) releaseNext(
	ctx context.Context, name carillon.HoldName, after carillon.RunID, limit int,
) (left int, last carillon.RunID, err error) {
	runs, err := s.cfg.Store.Line(ctx, carillon.LineQuery{
		Lines: []carillon.HoldName{name}, After: after, Until: carillon.Never, Limit: limit,
	})
	if err != nil || len(runs) == 0 {
		return 0, carillon.RunID{}, err
	}
	candidates, err := s.cfg.Ledger.Candidates(ctx, runs, "")
	if err != nil {
		return 0, carillon.RunID{}, err
	}
	changes, now := make([]carillon.Change, len(candidates)), s.cfg.Clock.Now()
	for i := range candidates {
		changes[i] = candidates[i].Release(now)
	}
	lost, err := s.cfg.Ledger.Commit(ctx, changes) // a run that lost has changed, and is read again
	return len(changes) - len(lost), runs[len(runs)-1].ID, err
}

// pace says how many runs may leave by a rate.
type pace struct {
	last time.Time
	owed float64 // runs that may leave now
}

// room is how many runs may leave now, and if there are none, after how long some may.
func (p *pace) room(rate carillon.Rate, now time.Time) (n int, wait time.Duration) {
	if rate.Starts == 0 {
		return releasePage, 0
	}
	perSecond := float64(rate.Starts) / rate.Per.Seconds()
	p.owed = min(p.owed+now.Sub(p.last).Seconds()*perSecond, max(1, maxBehind.Seconds()*perSecond))
	p.last = now
	if p.owed < 1 {
		wait := time.Duration((1 - p.owed) / perSecond * float64(time.Second))
		return 0, min(max(wait, releaseEvery), followEvery) // the rate can change, or the gate
	}
	return min(int(p.owed), releasePage), 0
}

func (p *pace) took(n int) { p.owed = max(p.owed-float64(n), 0) }

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
