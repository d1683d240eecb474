package desk_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon-run/carillon"
)

// say beats once, with a number.
func (h *house) say(n *node, worker string, number int64, tasks ...carillon.Task) []carillon.Order {
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
				for number := range int64(7) { // the first is held up on its way
					time.Sleep(carillon.BeatEvery)
					h.say(h.nodes[0], worker, number+2, task)
				}
				if stop := h.say(h.nodes[late], worker, 1); len(stop) > 0 {
					t.Errorf("told to stop: %+v", stop)
				}
				synctest.Wait()
				if run := h.run(job); run.State != carillon.Claimed || run.Losses != 0 {
					t.Errorf("%s, %d losses: %s", run.State, run.Losses, run.Reason)
				}
				if _, err := h.nodes[1].ledger.CancelJob(context.Background(), "default", job, false); err != nil {
					t.Fatal(err)
				}
				if stop := h.say(h.nodes[0], worker, 9, task); len(stop) != 1 {
					t.Errorf("the next beat hears of %d stops: what an old beat lists was taken for what the worker holds", len(stop))
				}
			})
		})
	}
}
