package scheduler_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/executor"
	"github.com/carillon-run/carillon/porttest"
)

// closure is a time in which a gate was closed for certain: from a while after the close was answered until
// a caller began to open it.
type closure struct {
	match    carillon.GateMatch
	from, to carillon.Time
}

// Gates open and close at random over random jobs, while stores fail and queues lose runs. No matching run
// starts while a gate is closed, and when all gates are open, every run has run or was skipped exactly once.
func TestGatesHoldWhileEverythingFails(t *testing.T) {
	seed := porttest.Seed(t)
	for round := range 6 {
		random := rand.New(rand.NewPCG(uint64(seed), uint64(round)))
		heard := time.Second // after so long a gate is closed everywhere
		faulty := round%2 == 1
		var store *switched
		in(t, func(h *house) {
			gatedHouse(h)
			loss := rand.New(rand.NewPCG(uint64(seed), uint64(100+round)))
			store = &switched{Store: h.truth, faulty: porttest.Lossy(h.truth, loss, 0.05)}
			if faulty {
				h.store, heard = store, 4*time.Second
				h.queue = func(q carillon.Queue) carillon.Queue {
					return lossyQueue{q, &nth{n: 7}, &nth{n: 31}}
				}
			}
			h.handle = slow(time.Duration(5+round*20) * time.Millisecond)
			h.outcome = func(task executor.Task) carillon.Outcome {
				if task.Run.Attempt == 1 && task.Run.ID.Job%3 == 0 {
					return carillon.Outcome{Kind: carillon.OutcomeRetriable, Reason: "not yet"}
				}
				return carillon.Outcome{Kind: carillon.OutcomeSuccess}
			}
		}, func(h *house) {
			h.live()
			time.Sleep(5 * time.Second)
			jobs, types := randomJobs(h, random)
			store.turn(true)
			closed := playGates(h, random, heard, store)
			store.turn(false)
			time.Sleep(15 * time.Minute)
			h.expectClosures(closed, types)
			for _, job := range jobs {
				h.expectOnce(&job)
			}
			h.expectGone()
			for _, op := range h.releases() {
				if op.State != carillon.OperationDone {
					t.Errorf("a release has not ended: %+v", op)
				}
			}
		})
		if t.Failed() {
			t.Fatalf("round %d of seed %d", round, seed)
		}
	}
}

func randomJobs(h *house, random *rand.Rand) (jobs []carillon.Job, of map[carillon.JobID]*carillon.Job) {
	of = map[carillon.JobID]*carillon.Job{}
	for i := range 150 {
		edit := after(time.Duration(random.IntN(60_000)) * time.Millisecond)
		switch random.IntN(4) {
		case 0:
			edit = every(time.Duration(1+random.IntN(9))*time.Second, carillon.OverlapSkip, 5)
		case 1:
			edit = every(time.Duration(1+random.IntN(9))*time.Second, carillon.OverlapQueueAll, 5)
		}
		if random.IntN(3) == 0 {
			edit = limited(edit, slots(fmt.Sprint("k", random.IntN(2)), 1+random.IntN(2)))
		}
		jobs = append(jobs, h.submitBy(h.nodes[i%2], 1, func(d *carillon.Definition) {
			edit(d)
			d.Type = fmt.Sprint("kind.", random.IntN(3))
			d.Queue = fmt.Sprint("q", random.IntN(2))
			d.Labels = map[string]string{"tier": fmt.Sprint(random.IntN(2))}
		})...)
	}
	for i := range jobs {
		of[jobs[i].ID] = &jobs[i]
	}
	return jobs, of
}

// playGates closes and opens gates for a while, and opens all of them in the end. A store that fails makes a
// close fail too: then nothing is known about that gate, and it is closed again while the store works.
func playGates(h *house, random *rand.Rand, heard time.Duration, store *switched) (closed []closure) {
	open := map[string]int{} // closed gates, by the index of their closure
	matches := []carillon.GateMatch{
		{All: true},
		{Type: "kind.1"},
		{Type: "*.2"},
		{Queue: "q0"},
		{Labels: map[string]string{"tier": "1"}},
		{Type: "kind.*", Queue: "q1"},
		{Namespace: "default", Labels: map[string]string{"tier": "0"}},
	}
	letOpen := func(id string) {
		closed[open[id]].to = h.clock.Now()
		store.turn(false)
		h.openGate(h.nodes[random.IntN(2)], id, []carillon.Rate{
			{}, {Starts: 100, Per: time.Second}, {Starts: 600, Per: time.Minute},
		}[random.IntN(3)])
		store.turn(true)
		delete(open, id)
	}
	for i := range 60 {
		time.Sleep(time.Duration(random.IntN(2000)) * time.Millisecond)
		id := fmt.Sprint("g", i)
		if len(open) < 3 && random.IntN(2) == 0 {
			g := carillon.Gate{ID: id, Match: matches[random.IntN(len(matches))], Reason: "r"}
			if random.IntN(4) == 0 {
				g.Mode = carillon.GateDrop
			}
			store.turn(false)
			h.closeGate(h.nodes[random.IntN(2)], g)
			store.turn(true)
			open[id] = len(closed)
			closed = append(closed, closure{match: g.Match, from: h.clock.Now().Add(heard)})
		} else if len(open) > 0 {
			for id := range open {
				letOpen(id)
				break
			}
		}
	}
	for id := range open {
		letOpen(id)
	}
	return closed
}

func (h *house) expectClosures(closed []closure, jobs map[carillon.JobID]*carillon.Job) {
	h.t.Helper()
	if len(closed) < 10 {
		h.t.Errorf("only %d gates were closed", len(closed))
	}
	for _, a := range h.attempts() {
		for _, c := range closed {
			if a.start > c.from && a.start < c.to && c.match.Matches(jobs[a.run.ID.Job]) {
				h.t.Errorf("%s started at %s, closed from %s to %s: %+v", a.run.ID, a.start, c.from, c.to,
					c.match)
			}
		}
	}
}

// expectOnce checks that each run of a job ran once or was skipped, and that a schedule came to its end.
func (h *house) expectOnce(job *carillon.Job) {
	h.t.Helper()
	ran, skipped := 0, 0
	succeeded := map[carillon.RunID]int{}
	for _, a := range h.attempts() {
		if a.run.ID.Job == job.ID && (job.ID%3 != 0 || a.run.Attempt > 1) {
			succeeded[a.run.ID]++
		}
	}
	for _, run := range h.runs(job.ID) {
		switch {
		case run.State == carillon.StateSucceeded && succeeded[run.ID] >= 1:
			ran++
		case run.State == carillon.StateSkipped:
			skipped++
		default:
			h.t.Errorf("%s is %s after %d attempts: %s", run.ID, run.State, run.Attempt, run.Reason)
		}
	}
	most := job.Schedule.MaxRuns // a run that was dropped while it waited for its turn counts for it
	switch {
	case job.Schedule.Recurring() && (ran > most || ran+skipped < most):
		h.t.Errorf("%s ran %d times of %d, and was skipped %d times", job.ID, ran, most, skipped)
	case !job.Schedule.Recurring() && ran+skipped != 1:
		h.t.Errorf("%s has %d runs and %d skips", job.ID, ran, skipped)
	}
}
