package dispatch_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/worker/protocol"
)

// say sends one beat, with a number.
func (h *house) say(n *node, worker string, number int64, tasks ...protocol.Task) []protocol.Order {
	h.Helper()
	b := carillon.Beat{ID: worker, Number: number}
	for i := range tasks {
		b.Holds = append(b.Holds, tasks[i].Held())
	}
	orders, err := n.Beat(context.Background(), b)
	h.must(err)
	return orders.Stop
}

func TestABeatThatWasHeldUpTakesNothingAway(t *testing.T) {
	for name, late := range map[string]int{"at the node that gave the run": 0, "at another": 1} {
		t.Run(name, func(t *testing.T) {
			in(t, 2, func(h *house) {
				worker := h.register(h.nodes[0])
				job := h.submit(h.nodes[0], nil)
				task := h.one(h.nodes[0], worker)
				for number := range int64(7) { // beat number 1 is held up on its way
					time.Sleep(protocol.BeatEvery)
					h.say(h.nodes[0], worker, number+2, task)
				}
				if stop := h.say(h.nodes[late], worker, 1); len(stop) > 0 {
					t.Errorf("told to stop: %+v", stop)
				}
				synctest.Wait()
				if run := h.run(job); run.State != carillon.StateClaimed || run.Losses != 0 {
					t.Errorf("%s, %d losses: %s", run.State, run.Losses, run.Reason)
				}
				if _, err := h.nodes[1].ledger.CancelJob(
					context.Background(), "default", job, false,
				); err != nil {
					t.Fatal(err)
				}
				if stop := h.say(h.nodes[0], worker, 9, task); len(stop) != 1 {
					t.Errorf(
						"the next beat hears of %d stops: what an old beat lists was taken for what the worker holds",
						len(stop),
					)
				}
			})
		})
	}
}

func TestAClockThatIsSetTakesNoFreshClaimBack(t *testing.T) {
	in(t, 1, func(h *house) {
		n := h.nodes[0]
		worker := h.register(n)
		job := h.submit(n, nil)
		task := h.one(n, worker)
		h.clock.SetAhead(time.Minute)
		h.beat(n, worker, 0) // sent before the answer to the pull came
		time.Sleep(500 * time.Millisecond)
		h.beat(n, worker, 20*time.Second, task)
		if run := h.run(job); run.State != carillon.StateClaimed || run.Losses != 0 {
			h.Errorf("%s, %d losses: %s", run.State, run.Losses, run.Reason)
		}
		h.clock.SetAhead(-time.Hour)
		lost := h.submit(n, nil)
		h.one(n, worker)
		h.beat(n, worker, 6*time.Second, task) // the answer never comes
		time.Sleep(time.Second)
		if run := h.run(lost); run.State != carillon.StateWaiting || run.Losses != 1 {
			h.Errorf("a lost answer: %s, %d losses", run.State, run.Losses)
		}
	})
}
