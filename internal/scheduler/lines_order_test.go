package scheduler_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/executor"
	"github.com/carillon-run/carillon/porttest"
)

// No worker has a free slot when the runs come due, so they would wait in the queues of both nodes, if they
// were not in line from the beginning.
func TestASingleSlotKeepsTheOrderWhileAllWorkersAreBusy(t *testing.T) {
	const keys, each = 40, 3
	in(t, func(h *house) {
		h.handle = func(task executor.Task) {
			if len(task.Job.Payload) > 0 {
				time.Sleep(3 * time.Second)
			} else {
				time.Sleep(10 * time.Millisecond)
			}
		}
	}, func(h *house) {
		h.live()
		time.Sleep(5 * time.Second)
		h.submit(32, func(d *carillon.Definition) { d.Payload = []byte(`"all slots"`) })
		time.Sleep(100 * time.Millisecond)
		random := rand.New(rand.NewPCG(uint64(porttest.Seed(t)), 4))
		var jobs []carillon.Job
		for _, i := range random.Perm(keys * each) {
			due := after(time.Second + time.Duration(i/keys)*5*time.Millisecond)
			jobs = append(jobs, h.submitBy(
				h.nodes[random.IntN(2)], 1, limited(due, slots(fmt.Sprint("key-", i%keys), 1)),
			)...)
		}
		time.Sleep(30 * time.Second)
		h.expectAll(jobs, 1)
		of := map[carillon.JobID]string{}
		for _, job := range jobs {
			of[job.ID] = job.Limits[0].Key
		}
		last := map[string]attempt{}
		for _, a := range h.attempts() {
			key := of[a.run.ID.Job]
			if before, any := last[key]; any && key != "" && before.run.ID.Due > a.run.ID.Due {
				t.Errorf("%s: %s started before %s", key, before.run.ID, a.run.ID)
			}
			last[key] = a
		}
	})
}

// The clock of the node that claimed a run can be ahead of the one that audits.
func TestAnAuditCountsRunsThatWereClaimedByAClockAheadOfItsOwn(t *testing.T) {
	ctx := context.Background()
	in(t, nil, func(h *house) {
		job := h.submit(1, limited(after(time.Hour), slots("k", 2)))[0]
		run := h.runs(job.ID)[0]
		run.State, run.Worker, run.Attempt, run.Slots = carillon.StateClaimed, "worker_ahead", 1, "key/k"
		lost, err := h.truth.Commit(ctx, []carillon.Change{{
			Runs: []carillon.Run{run},
			Guards: []carillon.Guard{{
				Namespace: "default", Key: "limit/key/k", Value: []byte("1 0 0 0 0"),
			}},
		}})
		if err != nil || len(lost) > 0 {
			t.Fatal(lost, err)
		}
		time.Sleep(10 * time.Minute)
		if n := h.nodes[0].scheduler.LimitDifferences(); n != 0 {
			t.Errorf("%d differences, want none", n)
		}
	})
}

// A slot that is counted and that no run has taken would never come back, whichever tenant it belongs to.
func TestAnAuditMendsTheLimitsOfEveryNamespace(t *testing.T) {
	ctx := context.Background()
	in(t, nil, func(h *house) {
		counts := func(namespace string) carillon.Guard {
			return carillon.Guard{Namespace: namespace, Key: "limit/key/k", Value: []byte("1 0 0 0 0")}
		}
		lost, err := h.truth.Commit(ctx, []carillon.Change{
			{Guards: []carillon.Guard{counts("default")}}, {Guards: []carillon.Guard{counts("blue")}},
		})
		if err != nil || len(lost) > 0 {
			t.Fatal(lost, err)
		}
		time.Sleep(3 * time.Minute)
		if n := h.nodes[0].scheduler.LimitDifferences(); n != 2 {
			t.Errorf("%d differences, want 2", n)
		}
		guards, err := h.truth.Guards(ctx, carillon.GuardQuery{Prefix: "limit/"})
		if err != nil || len(guards) != 2 {
			t.Fatal(guards, err)
		}
		for _, g := range guards {
			if g.UsedSlots() != 0 || g.Expires == 0 {
				t.Errorf("%s %s is %s, and expires at %s", g.Namespace, g.Key, g.Value, g.Expires)
			}
		}
		time.Sleep(3 * time.Hour)
		if guards, err = h.truth.Guards(ctx, carillon.GuardQuery{}); len(guards) > 0 || err != nil {
			t.Errorf("%v (%v) is left of limits that nothing uses", guards, err)
		}
	})
}
