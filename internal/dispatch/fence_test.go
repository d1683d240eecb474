package dispatch_test

import (
	"context"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/worker/protocol"
)

// undo writes a run as it was before its claim, as a database has it after a failover to a replica that was
// behind.
func (h *house) undo(task protocol.Task) {
	h.Helper()
	runs, err := h.store.Runs(context.Background(), []carillon.RunID{task.Run.ID}, false)
	h.must(err)
	run := runs[0]
	run.State, run.Worker, run.Attempt, run.Claimed = carillon.StateWaiting, "", 0, 0
	lost, err := h.store.Commit(context.Background(), []carillon.Change{{Runs: []carillon.Run{run}}})
	if h.must(err); len(lost) > 0 {
		h.Fatal("another writer has changed the run")
	}
}

func TestAClaimThatTheStoreLostIsToldFromTheNextOne(t *testing.T) {
	for name, at := range map[string]int{"at the node that gave it": 0, "at another": 1} {
		t.Run(name, func(t *testing.T) {
			in(t, 2, func(h *house) {
				first := h.register(h.nodes[0])
				job := h.submit(h.nodes[0], nil)
				old := h.one(h.nodes[0], first)
				h.say(h.nodes[at], first, 1, 0, old)
				h.undo(old)
				time.Sleep(25 * time.Second) // the sweep finds the run
				second := h.register(h.nodes[1])
				task := h.one(h.nodes[1], second)
				if task.Run.Attempt != old.Run.Attempt || task.Run.Fence() <= old.Run.Fence() {
					t.Fatalf(
						"attempts %d and %d, fences %d and %d", old.Run.Attempt, task.Run.Attempt,
						old.Run.Fence(), task.Run.Fence(),
					)
				}
				h.say(h.nodes[at], second, 1, 0, task)
				time.Sleep(protocol.BeatEvery)
				if stop := h.say(h.nodes[at], second, 2, 1, task); len(stop) > 0 {
					t.Errorf("the holder is told to stop: %+v", stop)
				}
				for _, r := range []protocol.Report{
					end(old, carillon.OutcomeSuccess, ""), {Held: old.Held(), Checkpoint: []byte("old")},
				} {
					if got := h.report(h.nodes[at], first, r); got != protocol.ReceiptRefused {
						t.Errorf("a report of the lost claim is %s", got)
					}
				}
				if got := h.report(
					h.nodes[at], second, end(task, carillon.OutcomeSuccess, ""),
				); got != protocol.ReceiptRecorded {
					t.Errorf("the holder's own is %s", got)
				}
				if got := h.report(
					h.nodes[at], first, end(old, carillon.OutcomeSuccess, ""),
				); got != protocol.ReceiptRefused {
					t.Errorf("after the end a report of the lost claim is %s", got)
				}
				if run := h.run(job); run.State != carillon.StateSucceeded || run.Worker != second {
					t.Errorf("%s by %s", run.State, run.Worker)
				}
			})
		})
	}
}

func TestTheWorkerOfAClaimThatTheStoreLostIsToldToStop(t *testing.T) {
	in(t, 2, func(h *house) {
		first := h.register(h.nodes[0])
		h.submit(h.nodes[0], nil)
		old := h.one(h.nodes[0], first)
		h.say(h.nodes[1], first, 1, 0, old)
		h.undo(old)
		for number := range int64(25) {
			time.Sleep(protocol.BeatEvery)
			if stop := h.say(h.nodes[1], first, number+2, number+1, old); len(stop) != 1 || !stop[0].Lost ||
				stop[0].Held != old.Held() {
				t.Fatalf("while the run waits, orders are %+v", stop)
			}
		}
		h.one(h.nodes[1], h.register(h.nodes[1]))
		if stop := h.say(h.nodes[1], first, 99, 0, old); len(stop) != 1 || !stop[0].Lost ||
			stop[0].Held != old.Held() {
			t.Errorf("when another worker has it, orders are %+v", stop)
		}
	})
}
