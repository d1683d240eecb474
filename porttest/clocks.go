package porttest

import (
	"context"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/worker/protocol"
)

// clocks are scenarios in which the machine's clock is set. SetAhead stands for that: it moves the time of
// the house's clock, and does not change how durations are measured.
var clocks = []scenario{
	{"a clock that is set forward stops nothing that runs, and starts nothing twice", func(h *House) {
		h.Handle = sleepFor(time.Minute)
		job := h.Submit(nil)
		// The next refresh of the members comes before the next beat.
		time.Sleep(20*time.Second + 300*time.Millisecond)
		for range 3 {
			h.Clock.SetAhead(time.Hour)
			time.Sleep(3 * time.Second)
			h.Clock.SetAhead(0)
			time.Sleep(3 * time.Second)
		}
		time.Sleep(time.Minute)
		h.expect(job.ID, "succeeded 1")
	}},
	{
		"a clock that is set forward after a restart leaves workers the time to say that they are there",
		func(h *House) {
			defer h.Clock.SetAhead(0)
			ctx := context.Background()
			must := func(err error) {
				h.T.Helper()
				if err != nil {
					h.T.Fatal(err)
				}
			}
			h.Handle = untilStopped
			for range 8 { // the worker of the house has no room for more
				h.Submit(nil)
			}
			time.Sleep(time.Second)
			worker, err := h.Dispatcher.Register(ctx, protocol.Registration{Name: "far"})
			must(err)
			job := h.Submit(func(d *carillon.Definition) { d.Queue = "far" })
			tasks, err := h.Dispatcher.Pull(ctx, protocol.Pull{
				Worker: worker, Want: carillon.Want{Queues: []string{"far"}}, Max: 1,
			})
			must(err)
			h.Down(0)
			time.Sleep(time.Second)
			h.Clock.SetAhead(time.Hour)
			other, err := h.Dispatcher.Register(ctx, protocol.Registration{Name: "other"})
			must(err)
			time.Sleep(time.Second)
			must(h.Dispatcher.Leave(ctx, other)) // when a member leaves, all runs are checked
			time.Sleep(time.Second)
			_, err = h.Dispatcher.Beat(ctx, carillon.Beat{
				ID: worker, Number: 9, Holds: []carillon.Held{tasks[0].Held()},
			})
			must(err)
			time.Sleep(time.Second)
			h.expect(job.ID, "claimed 1")
			_, err = h.Dispatcher.Report(ctx, worker, []protocol.Report{
				{Held: tasks[0].Held(), End: &carillon.Outcome{Kind: carillon.OutcomeSuccess}},
			})
			must(err)
		},
	},
}
