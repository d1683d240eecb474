package dispatch_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon-run/carillon"
)

// The largest payloads make a pull hand back a part of the runs that it took: one answer carries 64 of them.
func TestRunsThatAPullHandsBackToAFullLaneAreOfferedAgainWithoutASweep(t *testing.T) {
	in(t, 1, func(h *house) {
		n := h.nodes[0]
		worker, payload := h.register(n), append(append([]byte{'"'}, make([]byte, 256<<10-2)...), '"')
		for i := range payload[1 : len(payload)-1] {
			payload[i+1] = 'x'
		}
		due := h.clock.Now().Add(time.Second)
		for range 192 {
			h.submit(n, func(d *carillon.Definition) { d.Schedule.At, d.Payload = due, payload })
		}
		time.Sleep(2 * time.Second)
		if got := len(h.pull(n, worker, 1000)); got != 64 { // the next claim is twice as large
			t.Fatalf("the first pull got %d runs", got)
		}
		h.lanes.full.Store(true)
		if got := len(h.pull(n, worker, 1000)); got != 64 {
			t.Fatalf("the second pull got %d runs", got)
		}
		h.lanes.full.Store(false)
		got, since := 0, time.Now()
		for time.Since(since) < time.Second && got < 64 { // sweeps come every ten seconds
			got += len(h.pull(n, worker, 1000))
		}
		if got != 64 {
			t.Errorf("%d of the 64 runs that were handed back come again", got)
		}
	})
}

// panicking panics when a payload is read.
type panicking struct {
	carillon.Store
	now atomic.Bool
}

func (p *panicking) Runs(ctx context.Context, ids []carillon.RunID, outputs bool) ([]carillon.Run, error) {
	if outputs && p.now.Load() {
		panic("a bug")
	}
	return p.Store.Runs(ctx, ids, outputs)
}

func TestARunWhosePullPanicsIsTakenBackAndItsSlotsAreForgotten(t *testing.T) {
	in(t, 0, func(h *house) {
		store := &panicking{Store: h.store}
		h.read = store
		h.live()
		n := h.nodes[0]
		worker := h.register(n)
		job := h.submit(n, func(d *carillon.Definition) {
			d.Overlap, d.Schedule.Every = carillon.OverlapAllow, carillon.Duration(time.Hour)
		})
		run, err := n.ledger.RunNow(context.Background(), "default", job, []byte(`2`))
		h.must(err)
		store.now.Store(true)
		panicked := false
		for i := 0; i < 60 && !panicked; i++ {
			func() {
				defer func() { panicked = recover() != nil }()
				h.pull(n, worker, 1)
			}()
		}
		store.now.Store(false)
		if !panicked {
			t.Fatal("no pull panicked")
		}
		if slots, coming := n.Free(&run); slots+coming != 0 {
			t.Errorf("%d slots are free and %d are coming, but no pull waits", slots, coming)
		}
		h.beat(n, worker, 10*time.Second)
		if task := h.one(n, worker); task.Run.ID != run.ID || task.Run.Attempt != 2 {
			t.Errorf("%s, attempt %d", task.Run.ID, task.Run.Attempt)
		}
	})
}

func TestARunThatWasSubmittedForAPullThatPanicsIsTakenBack(t *testing.T) {
	in(t, 0, func(h *house) {
		store := &panicking{Store: h.store}
		store.now.Store(true)
		h.read = store
		h.live()
		n := h.nodes[0]
		worker := h.register(n)
		other := h.submit(n, func(d *carillon.Definition) {
			d.Overlap, d.Schedule.Every = carillon.OverlapAllow, carillon.Duration(time.Hour)
		})
		panicked := make(chan any, 1)
		go func() {
			defer func() { panicked <- recover() }()
			h.pull(n, worker, 2)
		}()
		synctest.Wait()
		job, run := h.reserve(n, worker)
		_, err := n.ledger.RunNow(context.Background(), "default", other, []byte(`2`))
		h.must(err)
		time.Sleep(100 * time.Millisecond) // the pull gets it and panics
		submitted := carillon.Change{Job: &job, Runs: []carillon.Run{run}}
		_, err = n.ledger.Commit(context.Background(), []carillon.Change{submitted})
		h.must(err)
		if why := <-panicked; why == nil {
			t.Error("the pull did not panic")
		}
		h.beat(n, worker, 10*time.Second)
		synctest.Wait()
		if run = h.run(job.ID); run.Losses == 0 {
			t.Errorf("a run that its worker never heard of is not taken back: %+v", run)
		}
	})
}
