package dispatch

import (
	"slices"
	"testing"
	"testing/synctest"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/adapter/mem"
	"github.com/carillon-run/carillon/worker/protocol"
)

const now carillon.Time = 1_000_000

// pulls are reservations with some pulls that wait.
type pulls struct {
	*testing.T
	reservations
	put []*inflight // the runs that are in flight
}

func newPulls(t *testing.T) *pulls {
	return &pulls{T: t, reservations: newReservations(mem.NewQueue(mem.QueueConfig{}), newPerformed())}
}

// pull begins a pull with room for some runs.
func (p *pulls) pull(worker string, room int, queues ...string) (w *waiter, awake *bool) {
	awake = new(bool)
	w = &waiter{
		worker: worker, wants: []carillon.Want{{Queues: queues}}, asked: room, room: room,
		awaken: func() { *awake = true },
	}
	p.wait(w)
	return w, awake
}

// reserved reserves a slot for a run of job id, or says that there is none.
func (p *pulls) reserved(id carillon.JobID) (run carillon.Run, worker string) {
	job := carillon.Job{ID: id, Namespace: carillon.DefaultNamespace}
	run = p.run(id)
	worker, ok := p.reserve(&run, &job, now)
	if ok != (worker != "") {
		p.Fatalf("worker %q, %v", worker, ok)
	}
	return run.Claim(worker, now), worker
}

// run is a run of job id in the queue default.
func (p *pulls) run(id carillon.JobID) carillon.Run {
	job := carillon.Job{ID: id, Namespace: carillon.DefaultNamespace}
	job.Queue = "default"
	return carillon.NewRun(&job, now)
}

// commit tells that the run was committed, at its first revision.
func (p *pulls) commit(run carillon.Run) {
	run.Rev = 1
	p.settle([]carillon.Change{{Runs: []carillon.Run{run}}}, func(h *inflight) { p.put = append(p.put, h) })
}

func TestSlotsAreReservedWhereTheRunIsWantedUntilNoneIsLeft(t *testing.T) {
	p := newPulls(t)
	p.pull("other", 9, "another queue")
	p.pull("first", 2)
	p.pull("second", 1, "default")
	var got []string
	for id := range carillon.JobID(4) {
		_, worker := p.reserved(1 + id)
		got = append(got, worker)
	}
	if want := []string{"first", "first", "second", ""}; !slices.Equal(got, want) {
		t.Errorf("reserved at %q", got)
	}
}

// Runs that are on their way have a slot already. Only those of the same lane would be overtaken.
func TestRunsOnTheirWayKeepOnlyTheirLaneFromASlot(t *testing.T) {
	p := newPulls(t)
	p.pull("worker", 9)
	a, b := p.run(1), p.run(2)
	a.Share = "a"
	p.come([]carillon.Run{a, a, b}, 1)
	p.come([]carillon.Run{b}, -1)
	if _, ok := p.reserve(&a, &carillon.Job{}, now); ok {
		t.Error("a run overtakes those of its lane")
	}
	if _, ok := p.reserve(&b, &carillon.Job{}, now); !ok {
		t.Error("a run waits for those of another lane")
	}
	p.come([]carillon.Run{a, a}, -1)
	if _, ok := p.reserve(&a, &carillon.Job{}, now); !ok || len(p.coming) > 0 {
		t.Errorf("nothing is on its way: %v, %v", ok, p.coming)
	}
}

func TestACommittedRunIsInFlightAndEndsTheWaitOfItsPull(t *testing.T) {
	p := newPulls(t)
	w, awake := p.pull("worker", 2)
	run, _ := p.reserved(1)
	if held := p.appendHeld(nil, "worker"); !slices.Equal(held, []carillon.Held{run.Held()}) {
		t.Errorf("before the commit the worker holds %v", held)
	}
	if held := p.appendHeld(nil, "another"); held != nil {
		t.Errorf("another worker holds %v", held)
	}
	p.commit(run)
	if !*awake || len(p.put) != 1 || !p.put[0].committed || !p.put[0].pending || p.put[0].run.Rev != 1 {
		t.Errorf("awake %v, in flight %+v", *awake, p.put)
	}
	if held := p.appendHeld(nil, "worker"); held != nil {
		t.Errorf("after the commit %v is still reserved", held)
	}
	if over := p.close(w, 2); over != 1 {
		t.Errorf("%d of two runs of the queue are too many beside the one that was reserved", over)
	}
	if tasks := w.taken(); len(tasks) != 1 || tasks[0].Run.ID != run.ID || tasks[0].Job.ID != 1 {
		t.Errorf("the pull answers with %+v", tasks)
	}
	p.release([]carillon.RunID{run.ID}) // the answer to the commit was lost: nothing is left to hand back
	if w.room != 1 {
		t.Errorf("room for %d", w.room)
	}
}

func TestASlotIsHandedBack(t *testing.T) {
	for name, handBack := range map[string]func(p *pulls, run carillon.Run){
		"when the commit fails": func(p *pulls, run carillon.Run) {
			p.release([]carillon.RunID{run.ID, run.ID})
		},
		"when another worker claims it": func(p *pulls, run carillon.Run) { run.Worker = "another"; p.commit(run) },
		"when another attempt has it":   func(p *pulls, run carillon.Run) { run.Attempt++; p.commit(run) },
		"when the run has ended": func(p *pulls, run carillon.Run) {
			run.State = carillon.StateCanceled
			p.commit(run)
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPulls(t)
			w, awake := p.pull("worker", 1)
			run, _ := p.reserved(1)
			handBack(p, run)
			p.commit(run) // too late
			if *awake || len(p.put) > 0 || w.room != 1 || len(p.open) > 0 {
				t.Errorf("awake %v, in flight %v, room %d, open %v", *awake, p.put, w.room, p.open)
			}
			if over := p.close(w, 1); over != 0 || len(w.taken()) > 0 {
				t.Errorf("%d are too many, %v", over, w.taken())
			}
		})
	}
}

func TestAPullWhoseSessionIsOverHasNoRoom(t *testing.T) {
	p := newPulls(t)
	w, awake := p.pull("worker", 3)
	_, other := p.pull("other", 1)
	run, _ := p.reserved(1)
	p.end("worker")
	if !*awake || *other {
		t.Errorf("ended: %v, the pull of another worker: %v", *awake, *other)
	}
	p.commit(run) // the pull hands it back
	if _, worker := p.reserved(2); worker != "other" {
		t.Errorf("reserved at %q", worker)
	}
	if over := p.close(w, 2); over != 2 || len(w.taken()) != 1 {
		t.Errorf("%d of two runs are too many, and the pull has %v to hand back", over, w.taken())
	}
}

func TestAPullThatIsClosedWaitsForItsReservationsAndGetsNoNewOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPulls(t)
		w, _ := p.pull("worker", 3)
		kept, _ := p.reserved(1)
		failed, _ := p.reserved(2)
		p.close(w, 0)
		if _, worker := p.reserved(3); worker != "" {
			t.Errorf("reserved a slot of %s, whose pull is closed", worker)
		}
		answer := make(chan []protocol.Task, 1)
		go func() { answer <- w.taken() }()
		synctest.Wait()
		if len(answer) > 0 {
			t.Fatal("the pull answers while two commits are under way")
		}
		p.commit(kept)
		synctest.Wait()
		if len(answer) > 0 {
			t.Fatal("the pull answers while a commit is under way")
		}
		p.release([]carillon.RunID{failed.ID})
		if tasks := <-answer; len(tasks) != 1 || tasks[0].Run.ID != kept.ID {
			t.Errorf("the pull answers with %+v", tasks)
		}
	})
}

func TestSlotsBelongToDueRunsOfTheQueueFirst(t *testing.T) {
	p := newPulls(t)
	p.pull("first", 1)
	p.pull("second", 1, "default", "mail")
	p.pull("third", 1, "default")
	due := carillon.Run{ID: carillon.RunID{Job: 9, Due: now}, Queue: "mail"}
	if _, err := p.queue.Push(t.Context(), []carillon.Run{due}); err != nil { // two of the pulls take it
		t.Fatal(err)
	}
	if got := p.waits([]carillon.Run{p.run(1), p.run(2)}); !slices.Equal(got, []bool{true, false}) {
		t.Errorf("slots are free: %v", got)
	}
	if _, worker := p.reserved(1); worker != "third" {
		t.Errorf("reserved at %q", worker)
	}
	if _, worker := p.reserved(2); worker != "" {
		t.Errorf("reserved at %q, before a run that is in the queue", worker)
	}
}

func TestSlotsAreComingWhileDueRunsAreOnTheirWayToPulls(t *testing.T) {
	p := newPulls(t)
	expect := func(when string, slots, coming int) {
		t.Helper()
		run := p.run(100)
		if free, more := p.free(&run); free != slots || more != coming {
			t.Errorf("%s: %d slots and %d coming, want %d and %d", when, free, more, slots, coming)
		}
	}
	push := func(from, to carillon.JobID) {
		for id := from; id < to; id++ {
			if _, err := p.queue.Push(t.Context(), []carillon.Run{p.run(id)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	p.pull("other", 9, "another queue")
	expect("no pull wants it", 0, 0)
	w, _ := p.pull("worker", 3)
	p.reserved(1)
	expect("a slot is reserved", 2, 3)
	push(10, 16)
	expect("the pull is about to get runs from the queue", 0, 3)
	got, err := p.queue.Pull(t.Context(), carillon.Demand{Wants: w.wants, Max: 2})
	if err != nil || len(got) != 2 {
		t.Fatal(got, err)
	}
	if surplus := p.close(w, 2); surplus != 0 {
		t.Errorf("%d runs too many", surplus)
	}
	expect("the pull claims runs from the queue", 0, 3)
	push(20, 23)
	expect("more due runs wait than it can take in two rounds", 0, 0)
	p.answered(w)
	expect("the pull has answered", 0, 0)
}

func TestEachRunNeedsASlotOfItsOwn(t *testing.T) {
	p := newPulls(t)
	p.pull("worker", 2, "default")
	runs := make([]carillon.Run, 4)
	for i, queue := range []string{"default", "other", "default", "default"} {
		job := carillon.Job{ID: carillon.JobID(1 + i), Namespace: carillon.DefaultNamespace}
		job.Queue = queue
		runs[i] = carillon.NewRun(&job, now)
	}
	if got := p.waits(runs); !slices.Equal(got, []bool{true, false, true, false}) {
		t.Errorf("%v", got)
	}
}

// Two pulls have the same run from the queue, and the commit of the first one's claim takes long. If the
// claim of the second one took its place in memory, beats would not list the first one, which may be in the
// store: a node would take the run back, and another worker would begin it before this one hears that it won.
func TestAClaimThatIsUnderWayIsNotMadeAgain(t *testing.T) {
	job := carillon.Job{ID: 1, Namespace: carillon.DefaultNamespace}
	waiting := carillon.NewRun(&job, now)
	claim := waiting.Claim("worker", now)
	candidates := []carillon.Candidate{{Job: &job, Run: waiting, Worker: "worker"}}
	changes := []carillon.Change{{Runs: []carillon.Run{claim}}}
	again := []carillon.Change{{Runs: []carillon.Run{waiting.Claim("worker", now+1000)}}}
	d := &Dispatcher{inflight: newInflightTable()}
	first, candidates, changes := d.addPending(candidates, changes)
	if second, _, rest := d.addPending(slices.Clone(candidates), again); len(second)+len(rest) > 0 {
		t.Errorf("claimed again: %+v", rest)
	}
	newer := waiting
	newer.Rev++ // another node wrote it: the first claim will lose
	candidate := []carillon.Candidate{{Job: &job, Run: newer, Worker: "worker"}}
	other := &Dispatcher{inflight: newInflightTable()}
	other.addPending(slices.Clone(candidates), slices.Clone(changes))
	if second, _, _ := other.addPending(candidate, []carillon.Change{
		{Runs: []carillon.Run{newer.Claim("worker", now+1000)}},
	}); len(second) != 1 {
		t.Error("a run that another node has written meanwhile is not claimed")
	}
	if holds := d.withClaims("worker", nil); len(holds) != 1 || holds[0] != claim.Held() {
		t.Errorf("beats list %v, want %v", holds, claim.Held())
	}

	d.inflight.dropAll("worker") // it was not seen for long
	if tasks := d.tasks(first, candidates, changes, nil); len(tasks) != 1 || tasks[0].Run.ID != claim.ID {
		t.Fatalf("%+v", tasks)
	}
	if h := d.inflight.runs[claim.ID]; h != &first[0] || !h.pending || !h.committed || h.job != &job {
		t.Errorf("in flight: %+v", h)
	}
	later := claim
	later.Claimed, later.Attempt = claim.Claimed+1, claim.Attempt+1
	d.inflight.put(&inflight{run: later, committed: true})
	if tasks := d.tasks(make([]inflight, 1), candidates, changes, nil); len(tasks) != 0 {
		t.Errorf("a claim that was taken away since is handed over: %+v", tasks)
	}
}
