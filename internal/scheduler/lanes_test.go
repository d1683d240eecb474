package scheduler_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/executor"
)

func slow(d time.Duration) func(executor.Task) { return func(executor.Task) { time.Sleep(d) } }

func tiny(h *house) {
	h.lane, h.concurrency = 3, 4
	h.handle = slow(10 * time.Millisecond)
}

func lane(queue string, priority int, edit func(*carillon.Definition)) func(*carillon.Definition) {
	return func(d *carillon.Definition) {
		edit(d)
		d.Queue, d.Priority = queue, priority
	}
}

func TestALaneThatOverflowsLosesNothing(t *testing.T) {
	in(t, tiny, func(h *house) {
		now := h.submit(300, lane("mail", 5, after(0)))
		soon := h.submit(300, lane("mail", 5, after(20*time.Second)))
		later := h.submit(100, lane("mail", 5, after(2*time.Minute))) // beyond the horizon
		time.Sleep(time.Hour)
		h.expectAll(now, 1)
		h.expectAll(soon, 1)
		h.expectAll(later, 1)
		for _, a := range h.attempts() {
			if a.run.Attempt > 1 {
				t.Errorf("%s needed %d attempts", a.run.ID, a.run.Attempt)
			}
		}
	})
}

func TestALaneThatOverflowsGoesOnInOrder(t *testing.T) {
	in(t, tiny, func(h *house) {
		var jobs []carillon.Job
		for i := range 100 { // due one after another, all before the first can run
			jobs = append(
				jobs, h.submit(1, lane("mail", 5, after(time.Minute+time.Duration(i)*time.Millisecond)))...,
			)
		}
		time.Sleep(time.Hour)
		h.expectAll(jobs, 1)
		begun := h.attempts()
		for i := range begun {
			if i >= 16 && begun[i].run.ID.Due < begun[i-16].run.ID.Due { // four at a time, and some slack
				t.Errorf(
					"number %d was due %s before number %d", i,
					begun[i-16].run.ID.Due.Sub(begun[i].run.ID.Due), i-16,
				)
			}
		}
	})
}

func TestALaneThatOverflowsDoesNotHoldUpOthers(t *testing.T) {
	in(t, func(h *house) { tiny(h); h.handle = slow(50 * time.Millisecond) }, func(h *house) {
		backlog := h.submit(600, lane("mail", 5, after(0)))
		other := h.submit(2, lane("other", 9, every(time.Second, carillon.OverlapSkip, 5)))
		later := h.submit(1, lane("other", 9, after(3*time.Second)))
		time.Sleep(10 * time.Second)
		h.expectAll(other, 5)
		h.expectAll(later, 1)
		h.expectLate(append(other, later...), 60*time.Millisecond)
		time.Sleep(time.Hour)
		h.expectAll(backlog, 1)
	})
}

func TestABacklogOfLongRunsIsWorkedOffToItsEnd(t *testing.T) {
	in(t, func(h *house) { tiny(h); h.handle = slow(time.Minute) }, func(h *house) {
		jobs := h.submit(40, lane("mail", 5, after(0)))
		time.Sleep(11 * time.Minute) // four at a time
		h.expectAll(jobs, 1)
		h.expectLate(jobs, 9*time.Minute+10*time.Second)
	})
}

func TestRecurringJobsInATinyLaneKeepTheirTimes(t *testing.T) {
	for _, overlap := range []carillon.Overlap{
		carillon.OverlapSkip, carillon.OverlapAllow, carillon.OverlapQueueAll,
	} {
		t.Run(string(overlap), func(t *testing.T) {
			in(t, tiny, func(h *house) {
				jobs := h.submit(40, lane("mail", 5, every(10*time.Second, overlap, 6)))
				time.Sleep(10 * time.Minute)
				h.expectAll(jobs, 6)
				h.expectLate(jobs, 2*time.Second)
			})
		})
	}
}

func TestAMemoryFullOfLaterRunsDoesNotHoldUpNearerOnes(t *testing.T) {
	in(t, tiny, func(h *house) {
		later := h.submit(10, lane("mail", 5, after(50*time.Second)))
		nearer := slices.Concat(
			h.submit(2, lane("mail", 5, every(2*time.Second, carillon.OverlapSkip, 10))),
			h.submit(2, lane("mail", 5, every(3*time.Second, carillon.OverlapAllow, 10))),
		)
		soon := h.submit(5, lane("mail", 5, after(5*time.Second)))
		time.Sleep(45 * time.Second)
		h.expectAll(nearer, 10)
		h.expectAll(soon, 1)
		h.expectLate(append(nearer, soon...), 200*time.Millisecond)
		time.Sleep(time.Minute)
		h.expectAll(later, 1)
	})
}

// counted counts how often a store is asked for wakes, and how many runs it returned.
type counted struct {
	carillon.Store
	wakes, runs atomic.Int64
}

func (s *counted) Wakes(ctx context.Context, q carillon.WakeQuery) ([]carillon.Run, error) {
	s.wakes.Add(1)
	runs, err := s.Store.Wakes(ctx, q)
	s.runs.Add(int64(len(runs)))
	return runs, err
}

func TestAFullLaneIsNotReadAgainAndAgain(t *testing.T) {
	for _, overlap := range []carillon.Overlap{carillon.OverlapQueueAll, carillon.OverlapAllow} {
		t.Run(string(overlap), func(t *testing.T) {
			var store *counted
			in(t, func(h *house) {
				tiny(h)
				store = &counted{Store: h.truth}
				h.store, h.handle = store, slow(10*time.Second)
			}, func(h *house) {
				jobs := h.submit(30, lane("mail", 5, every(time.Hour, overlap, 1)))
				time.Sleep(time.Hour)
				before := store.wakes.Load()
				time.Sleep(time.Minute)
				if n := store.wakes.Load() - before; n > 60 { // each ended run makes room for one more read
					h.t.Errorf("the store was asked %d times in a minute in which %d runs could begin", n, 24)
				}
				time.Sleep(10 * time.Minute)
				h.expectAll(jobs, 1)
			})
		})
	}
}

func TestEditsReachRunsOfAPagedLane(t *testing.T) {
	in(t, tiny, func(h *house) {
		jobs := h.submit(60, lane("mail", 5, after(30*time.Second)))
		for i, job := range jobs {
			var err error
			switch i % 3 {
			case 0:
				_, err = h.nodes[0].ledger.CancelJob(context.Background(), "default", job.ID, false)
			case 1:
				_, err = h.nodes[0].ledger.EditJob(context.Background(), "default", job.ID,
					func(d *carillon.Definition) error {
						d.Queue = "other"
						return d.Admit(h.clock.Now())
					})
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		for i, job := range jobs {
			run := h.runs(job.ID)[0]
			want := carillon.StateSucceeded
			if i%3 == 0 {
				want = carillon.StateCanceled
			}
			if run.State != want || i%3 == 1 && run.Queue != "other" {
				t.Errorf("job %d: %s in %s", i, run.State, run.Queue)
			}
		}
	})
}

// put leaves jobs in the store, as a process before this one would.
func (h *house) put(n int, edit func(*carillon.Definition)) (jobs []carillon.Job) {
	h.t.Helper()
	now := h.clock.Now()
	var changes []carillon.Change
	for range n {
		def := carillon.Definition{}
		def.Type, def.Target.Handler = "test", &carillon.Handler{}
		edit(&def)
		if err := def.Admit(now); err != nil {
			h.t.Fatal(err)
		}
		h.unheardOf++
		job := &carillon.Job{ID: h.unheardOf, Namespace: carillon.DefaultNamespace, Definition: def}
		changes = append(changes, carillon.Submit(job, now))
		jobs = append(jobs, *job)
	}
	if lost, err := h.truth.Commit(context.Background(), changes); len(lost) > 0 || err != nil {
		h.t.Fatal(lost, err)
	}
	return jobs
}
