package dispatch_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/porttest"
	"github.com/carillon-run/carillon/worker/protocol"
)

func TestEveryAttemptAndRepetitionOfARunGetsThePayloadThatItWasAskedForWith(t *testing.T) {
	in(t, 2, func(h *house) {
		n := h.nodes[0]
		worker := h.register(n)
		job := h.submit(n, func(d *carillon.Definition) {
			d.Payload, d.Overlap, d.Schedule.Every = []byte(
				`"the job's"`,
			), carillon.OverlapAllow, carillon.Duration(time.Hour)
			d.Retry.MaxAttempts, d.Retry.Delay = 2, carillon.Duration(time.Second)
		})
		run, err := n.ledger.RunNow(context.Background(), "default", job, []byte(`{"own":1}`))
		h.must(err)
		expect := func(task protocol.Task, attempt int32, payload string) {
			h.Helper()
			if task.Run.Attempt != attempt || string(task.Job.Payload) != payload {
				h.Errorf(
					"attempt %d of %s has payload %s, want attempt %d with %s", task.Run.Attempt, task.Run.ID,
					task.Job.Payload, attempt, payload,
				)
			}
		}
		first := h.one(n, worker)
		expect(first, 1, `{"own":1}`)
		h.report(n, worker, protocol.Report{
			Held: first.Held(), Checkpoint: []byte("half"),
			End: &carillon.Outcome{Kind: carillon.OutcomeRetriable, Reason: "no"},
		})
		h.beat(n, worker, 3*time.Second)
		second := h.one(n, worker)
		expect(second, 2, `{"own":1}`)
		if string(second.Checkpoint) != "half" {
			h.Errorf("the checkpoint is %q", second.Checkpoint)
		}
		h.report(n, worker, end(second, carillon.OutcomeRetriable, "no"))

		// on the other node
		again, err := h.nodes[1].ledger.RetryDeadLetter(context.Background(), "default", run.ID, nil)
		h.must(err)
		h.beat(n, worker, 3*time.Second)
		other := h.register(h.nodes[1])
		third := h.one(h.nodes[1], other)
		expect(third, 1, `{"own":1}`)
		if third.Run.ID != again.ID || third.Checkpoint != nil {
			h.Errorf("%s with checkpoint %q", third.Run.ID, third.Checkpoint)
		}
		h.report(h.nodes[1], other, end(third, carillon.OutcomeSuccess, ""))

		// The definition that the node remembers is unchanged.
		_, err = n.ledger.RunNow(context.Background(), "default", job, nil)
		h.must(err)
		plain := h.one(n, h.register(n))
		expect(plain, 1, `"the job's"`)
	})
}

func TestANullPayloadOfARunIsNone(t *testing.T) {
	in(t, 1, func(h *house) {
		n := h.nodes[0]
		worker := h.register(n)
		job := h.submit(n, func(d *carillon.Definition) {
			d.Payload, d.Overlap, d.Schedule.Every = []byte(`1`), carillon.OverlapAllow, carillon.Duration(
				time.Hour,
			)
		})
		_, err := n.ledger.RunNow(context.Background(), "default", job, []byte(`null`))
		h.must(err)
		if task := h.one(n, worker); task.Job.Payload != nil {
			h.Errorf("the payload is %s", task.Job.Payload)
		}
	})
}

func TestOwnPayloadsCountForTheSizeOfAnAnswer(t *testing.T) {
	in(t, 1, func(h *house) {
		n := h.nodes[0]
		worker := h.register(n)
		job := h.submit(n, func(d *carillon.Definition) {
			d.Overlap, d.Schedule.Every = carillon.OverlapAllow, carillon.Duration(time.Hour)
		})
		const runs, most = 200, 16 << 20
		large := []byte(`"` + strings.Repeat("x", carillon.MaxPayload-2) + `"`)
		for range runs {
			_, err := n.ledger.RunNow(context.Background(), "default", job, large)
			h.must(err)
		}
		h.beat(n, worker, 3*time.Second)
		seen := 0
		for range runs {
			bytes := 0
			tasks := h.pull(n, worker, runs)
			for _, task := range tasks {
				bytes += len(task.Job.Payload)
			}
			if bytes > most {
				h.Errorf("an answer has %d bytes of payloads", bytes)
			}
			if seen += len(tasks); seen == runs {
				return
			}
		}
		h.Errorf("%d of %d were given out", seen, runs)
	})
}

func TestARunWhosePayloadCannotBeReadIsNotBegunWithAnother(t *testing.T) {
	in(t, 0, func(h *house) {
		h.read = porttest.Failing(h.store, "Runs", 1)
		h.live()
		n := h.nodes[0]
		worker := h.register(n)
		job := h.submit(n, func(d *carillon.Definition) {
			d.Payload, d.Overlap, d.Schedule.Every = []byte(`1`), carillon.OverlapAllow, carillon.Duration(
				time.Hour,
			)
		})
		run, err := n.ledger.RunNow(context.Background(), "default", job, []byte(`2`))
		h.must(err)
		for range 30 {
			h.beat(n, worker, 0)
			for _, task := range h.pull(n, worker, 1) {
				if task.Run.ID != run.ID || task.Run.Attempt != 2 || string(task.Job.Payload) != "2" {
					h.Errorf(
						"attempt %d of %s with payload %s", task.Run.Attempt, task.Run.ID, task.Job.Payload,
					)
				}
				return
			}
		}
		h.Error("it was not given out")
	})
}
