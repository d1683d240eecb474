package dispatch_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/worker/protocol"
)

func TestABeatThatWasHeldUpTakesNothingAway(t *testing.T) {
	for name, late := range map[string]int{"at the node that gave the run": 0, "at another": 1} {
		t.Run(name, func(t *testing.T) {
			in(t, 2, func(h *house) {
				worker := h.register(h.nodes[0])
				job := h.submit(h.nodes[0], nil)
				task := h.one(h.nodes[0], worker)
				for number := range int64(7) { // beat number 1 is held up on its way
					time.Sleep(protocol.BeatEvery)
					h.say(h.nodes[0], worker, number+2, number+1, task)
				}
				if stop := h.say(h.nodes[late], worker, 1, 0); len(stop) > 0 {
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
				if stop := h.say(h.nodes[0], worker, 9, 8, task); len(stop) != 1 {
					t.Errorf(
						"the next beat hears of %d stops: what an old beat lists was taken for what the worker holds",
						len(stop),
					)
				}
			})
		})
	}
}

// The worker gave up a beat that it sent just before a run began. The beat arrives all the same, long after
// the answer to the pull, and just before the next one, which lists the run.
func TestABeatThatWasSentBeforeARunBeganTakesNothingAway(t *testing.T) {
	for name, where := range map[string]int{"at the node that gave the run": 0, "at another": 1} {
		t.Run(name, func(t *testing.T) {
			const step, leaseEnd = 100 * time.Millisecond, 2*time.Second + protocol.LeaseTime
			for came := 3 * time.Second; came < leaseEnd; came += step {
				in(t, 2, func(h *house) {
					n := h.nodes[where]
					worker := h.register(h.nodes[0])
					job := h.submit(h.nodes[0], nil)
					task := h.one(h.nodes[0], worker)
					answered := time.Now()
					for number := range int64(2) {
						time.Sleep(protocol.BeatEvery)
						h.say(n, worker, number+1, number)
					}
					// 2.9 s: the third beat is sent. 2.95 s: the run begins. 4.8 s: the fourth beat is sent.
					time.Sleep(time.Until(answered.Add(came)))
					h.say(n, worker, 3, 2)
					time.Sleep(time.Millisecond)
					h.say(n, worker, 4, 2, task)
					for number := range int64(10) {
						time.Sleep(protocol.BeatEvery)
						h.say(n, worker, number+5, number+4, task)
					}
					if run := h.run(job); run.State != carillon.StateClaimed || run.Losses != 0 {
						t.Errorf("came after %s: %s, %d losses: %s", came, run.State, run.Losses, run.Reason)
					}
				})
			}
		})
	}
}

func TestALostAnswerIsNoticedEvenIfEverySecondAnswerToBeatsIsLostToo(t *testing.T) {
	for name, where := range map[string]int{"at the node that gave the run": 0, "at another": 1} {
		t.Run(name, func(t *testing.T) {
			in(t, 2, func(h *house) {
				worker := h.register(h.nodes[0])
				job := h.submit(h.nodes[0], nil)
				h.one(h.nodes[0], worker)
				for number, heard := int64(1), int64(0); number < 20; number++ {
					h.say(h.nodes[where], worker, number, heard)
					if number%2 == 0 {
						heard = number
					}
					time.Sleep(protocol.BeatEvery)
				}
				if run := h.run(job); run.State != carillon.StateWaiting || run.Losses != 1 {
					t.Errorf("%s, %d losses: %s", run.State, run.Losses, run.Reason)
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
