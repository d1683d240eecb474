package porttest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/executor"
)

// gatesNode is one life of a node.
type gatesNode struct {
	*House
	dead atomic.Bool // it does nothing any more, and no part of the system knows
}

// live starts a node.
func (w *gatesWorld) live() *gatesNode {
	w.lives++
	n := &gatesNode{}
	share := 0.0
	if w.faulty && !w.healed.Load() {
		share = 0.05
	}
	source := func() *rand.Rand { return rand.New(rand.NewPCG(w.rand.Uint64(), 1)) }
	lost := newChance(source(), share)
	w.chances = append(w.chances, lost)
	store := Lossy(w.truth, source(), share)
	fails := store.plan
	store.plan = func(method string, call int) fault {
		how := fails(method, call)
		switch {
		case n.dead.Load():
			return refused
		case w.healed.Load():
			return fine
		}
		return how
	}
	n.House = &House{
		T: w.t, Store: store, Coordinator: mortal{w.coordinator, &n.dead}, Operated: true,
		Node: fmt.Sprint("node_", w.lives), Number: w.lives,
		Carriers: func(t carillon.Timeline, q carillon.Queue) (carillon.Timeline, carillon.Queue) {
			return lossyTimeline{t, lost}, lossyQueue{q, lost}
		},
		Handle: func(_ context.Context, task executor.Task) error { return w.perform(n, task) },
	}
	n.Live(64)
	return n
}

// perform is the handler of all jobs. The first attempt of some of them fails.
func (w *gatesWorld) perform(n *gatesNode, task executor.Task) error {
	if n.dead.Load() {
		return ErrInjected
	}
	s := gatesStart{run: task.Run, job: task.Job, at: carillon.Now()}
	s.succeeded = task.Run.Failures > 0 || string(task.Job.Payload) != `"fails"`
	w.mu.Lock()
	w.starts = append(w.starts, s)
	w.mu.Unlock()
	time.Sleep(20 * time.Millisecond)
	if !s.succeeded {
		return errors.New("not yet")
	}
	return nil
}

// mortal is a coordinator that a dead node does not reach.
type mortal struct {
	carillon.Coordinator
	dead *atomic.Bool
}

func (m mortal) Beat(ctx context.Context, beats []carillon.Beat) ([]carillon.Standing, error) {
	if m.dead.Load() {
		return nil, ErrInjected
	}
	return m.Coordinator.Beat(ctx, beats)
}

func (m mortal) Leave(ctx context.Context, ids []string) error {
	if m.dead.Load() {
		return ErrInjected
	}
	return m.Coordinator.Leave(ctx, ids)
}

func (m mortal) Members(
	ctx context.Context, q carillon.MemberQuery,
) ([]carillon.Member, carillon.Time, error) {
	if m.dead.Load() {
		return nil, 0, ErrInjected
	}
	return m.Coordinator.Members(ctx, q)
}
