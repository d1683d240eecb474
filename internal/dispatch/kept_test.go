package dispatch

import (
	"context"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
)

// ofShare is a run of job id and a share.
func (p *pulls) ofShare(id carillon.JobID, share string) carillon.Run {
	run := p.run(id)
	run.Share = share
	return run
}

// keeps begins a pull for kept slots.
func (p *pulls) keeps(worker string, room int) *waiter {
	w, _ := p.pull(worker, room)
	w.lone = true
	return w
}

// expect reserves a slot for a run; "" says that none is expected.
func (p *pulls) expect(what string, run carillon.Run, want string) {
	p.Helper()
	if worker, _ := p.reserve(&run, &carillon.Job{}, now); worker != want {
		p.Errorf("%s: a slot of %q is reserved, want %q", what, worker, want)
	}
}

func TestASlotThatIsKeptIsReservedForALoneRunOnly(t *testing.T) {
	p := newPulls(t)
	p.keeps("keeps", 5)
	if _, err := p.queue.Push(t.Context(), []carillon.Run{p.ofShare(1, "waits")}); err != nil {
		t.Fatal(err)
	}
	p.expect("a share that waits", p.ofShare(2, "waits"), "")
	p.expect("another one", p.ofShare(3, "other"), "keeps")
	typed := p.ofShare(4, "other")
	typed.Needs = "another type"
	p.expect("a share of which a run is about to begin", typed, "")
	high := p.ofShare(5, "other")
	high.Priority++
	p.expect("another priority", high, "keeps")
	p.pull("any", 1, "default")
	if _, err := p.queue.Pull(t.Context(), carillon.Demand{Max: 1}); err != nil {
		t.Fatal(err)
	}
	p.expect("slots that are not kept come first", p.ofShare(6, "third"), "any")
	p.expect("then those that are kept", p.ofShare(7, "fourth"), "keeps")
}

// A share of which any worker of this node performs a run has no kept slot, until that run has ended. So a
// share that comes job by job does not have one of each worker.
func TestASlotThatIsKeptIsNotForAShareThatIsPerformed(t *testing.T) {
	p := newPulls(t)
	table := newInflightTable()
	p.performed = table.performed
	p.performed.on.Store(true)
	p.keeps("keeps", 1)
	for id := range carillon.JobID(3) {
		table.put(&inflight{run: p.ofShare(10+id, "busy").Claim("another", now)})
	}
	table.put(&inflight{run: table.runs[p.run(12).ID].run}) // again, as when its commit is heard of
	for id := range carillon.JobID(2) {
		table.drop(table.runs[p.run(10+id).ID])
		p.expect("while others are performed", p.ofShare(1, "busy"), "")
	}
	if freed := p.performed.takeFreed(); len(freed) > 0 {
		t.Errorf("freed: %v", freed)
	}
	table.dropAll("another")
	run := p.ofShare(1, "busy")
	if freed := p.performed.takeFreed(); len(freed) != 1 || freed[0] != run.Lane().Sharer() {
		t.Errorf("freed: %v", freed)
	}
	p.expect("when none is performed", run, "keeps")
	if p := p.performed; len(p.of)+len(p.runs)+len(p.takeFreed()) > 0 {
		t.Errorf("left: %v, %v", p.of, p.runs)
	}
}

// A pull for kept slots passed over a share because a run of it was performed. When that run has ended, no
// push may come that would serve the pull.
func TestAPullForKeptSlotsGetsARunOfAShareThatIsFreed(t *testing.T) {
	p := newPulls(t)
	table := newInflightTable()
	d := &Dispatcher{
		cfg: Config{Queue: p.queue}, inflight: table, reservations: newReservations(p.queue, table.performed),
	}
	table.performed.on.Store(true)
	for id := range carillon.JobID(2) {
		run := p.ofShare(1+id, "busy").Claim("worker", now)
		run.Rev = 1
		table.put(&inflight{run: run, committed: true})
	}
	waits := p.ofShare(3, "busy")
	if _, err := p.queue.Push(t.Context(), []carillon.Run{waits}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	answer, asked := make(chan []carillon.Run, 1), make(chan struct{}, 9)
	go func() {
		busy := func(sharer carillon.Lane) bool {
			asked <- struct{}{}
			return table.performed.any(sharer)
		}
		runs, _ := p.queue.Pull(ctx, carillon.Demand{Max: 1, Lone: true, Busy: busy})
		answer <- runs
	}()
	<-asked
	end := func(id carillon.JobID) {
		run := p.ofShare(id, "busy")
		run.State, run.Rev = carillon.StateSucceeded, 2
		d.Notice([]carillon.Change{{Runs: []carillon.Run{run}}})
	}
	end(1)
	if len(asked) > 0 {
		t.Error("the pull looks again although another run is performed")
	}
	end(2)
	if runs := <-answer; len(runs) != 1 || runs[0].ID != waits.ID {
		t.Errorf("the pull got %v", runs)
	}
}

// Runs that are on their way to kept slots count as performed.
func TestRunsOnTheirWayToKeptSlotsCount(t *testing.T) {
	p := newPulls(t)
	p.performed.on.Store(true)
	p.keeps("keeps", 1)
	runs := []carillon.Run{p.ofShare(1, "comes")}
	p.performed.come(runs, 1)
	p.expect("while one is on its way", p.ofShare(2, "comes"), "")
	p.performed.begin(&runs[0])
	p.performed.come(runs, -1)
	p.expect("when it has begun", p.ofShare(2, "comes"), "")
	p.performed.end(runs[0].ID)
	p.expect("when it has ended", p.ofShare(2, "comes"), "keeps")
}
