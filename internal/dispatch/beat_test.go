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

// The worker gave up two beats that it sent before a run began. They arrive all the same, long after the
// answer to the pull, and just before the next one, which lists the run.
func TestBeatsThatWereSentBeforeARunBeganTakeNothingAway(t *testing.T) {
	const lastGood = 800 * time.Millisecond // when the last good beat was sent
	for came := time.Second; came < lastGood+protocol.LeaseTime; came += 100 * time.Millisecond {
		in(t, 1, func(h *house) {
			n := h.nodes[0]
			worker := h.register(n)
			job := h.submit(n, nil)
			task := h.one(n, worker)
			answered := time.Now()
			time.Sleep(lastGood - protocol.BeatEvery/2)
			h.say(n, worker, 1, 0)
			time.Sleep(protocol.BeatEvery / 2)
			h.say(n, worker, 2, 1)
			// Beat 3 is sent at 1 s, beat 4 at 2.9 s; the run begins at 2.95 s; beat 5 is sent at 4.8 s.
			time.Sleep(time.Until(answered.Add(came)))
			h.say(n, worker, 3, 2)
			time.Sleep(time.Millisecond)
			h.say(n, worker, 4, 2)
			time.Sleep(time.Until(answered.Add(4800 * time.Millisecond)))
			for number := int64(5); number < 15; number++ {
				h.say(n, worker, number, number-1, task)
				time.Sleep(protocol.BeatEvery)
			}
			if run := h.run(job); run.State != carillon.StateClaimed || run.Losses != 0 {
				t.Errorf("came after %s: %s, %d losses: %s", came, run.State, run.Losses, run.Reason)
			}
		})
	}
}

// Half of the answers to beats are lost too, or all: then the worker never hears of any.
func TestALostAnswerIsNoticedAlsoIfAnswersToBeatsAreLost(t *testing.T) {
	for _, c := range []struct {
		name   string
		where  int
		heard  func(number int64) int64
		within time.Duration
	}{
		{"half of them, at the node that gave the run", 0, half, 8 * time.Second},
		{"half of them, at another", 1, half, 16 * time.Second},
		{"all, at the node that gave the run", 0, none, 12 * time.Second},
		{"all, at another", 1, none, 20 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			in(t, 2, func(h *house) {
				worker := h.register(h.nodes[0])
				job := h.submit(h.nodes[0], nil)
				h.one(h.nodes[0], worker)
				for began, number := time.Now(), int64(1); time.Since(began) < c.within; number++ {
					h.say(h.nodes[c.where], worker, number, c.heard(number))
					time.Sleep(protocol.BeatEvery)
				}
				if run := h.run(job); run.State != carillon.StateWaiting || run.Losses != 1 {
					t.Errorf("%s, %d losses: %s", run.State, run.Losses, run.Reason)
				}
			})
		})
	}
}

// half and none are what a worker has heard of when it sends a beat: half of the earlier ones, or none.
func half(number int64) int64 { return (number - 1) / 2 * 2 }
func none(int64) int64        { return 0 }

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
