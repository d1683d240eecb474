package worker_test

import (
	"testing"
	"time"

	"github.com/carillon-run/carillon"
)

// A worker that is told to stop has already asked for runs, and still performs others for a while.
func TestWhatIsClaimedForAWorkerThatStopsIsHandedBackAtOnce(t *testing.T) {
	claimTakesLong := func(h *house) { h.store.delay = 100 * time.Millisecond }
	const early, late = -50 * time.Millisecond, 50 * time.Millisecond
	for name, c := range map[string]struct {
		build  func(*house)
		submit time.Duration // after the stop
	}{
		"inside a node, while it is being claimed": {claimTakesLong, early},
		"elsewhere, while it is being claimed": {
			func(h *house) { remote(h); claimTakesLong(h) }, early,
		},
		"elsewhere, while the answer is on its way": {
			func(h *house) { h.between = &wire{slow: time.Second} }, early,
		},
		"elsewhere, which is lost with its connection": {
			func(h *house) { h.between = &wire{slow: time.Second, unheard: true} }, early,
		},
		"elsewhere, unnoticed while it is claimed": {
			func(h *house) { h.between = &wire{unheard: true}; claimTakesLong(h) }, early,
		},
		"elsewhere, unnoticed until a run is due": {
			func(h *house) { h.between = &wire{unheard: true} }, late,
		},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(h *house) { h.handle, h.drain = slow(8*time.Second), time.Minute; c.build(h) },
				func(h *house) {
					time.Sleep(2 * carillon.SessionTime)
					long := h.submit(1, nil)[0].ID
					time.Sleep(3 * time.Second)
					submitted := make(chan carillon.JobID, 1)
					time.AfterFunc(late-early+c.submit, func() { submitted <- h.submit(1, nil)[0].ID })
					time.Sleep(late - early)
					h.endWorker()
					told := time.Now()
					job := <-submitted
					for h.run(job).State != carillon.StateWaiting && time.Since(told) < 20*time.Second {
						time.Sleep(time.Millisecond)
					}
					if took := time.Since(told); took > 1500*time.Millisecond {
						t.Errorf("handed back after %s", took)
					}
					if run := h.run(job); run.Losses > 1 || run.Crashes != 0 || run.Failures != 0 ||
						len(h.attempts(job)) > 0 {
						t.Errorf(
							"%d losses, %d crashes, %d failures, %d begun: %s", run.Losses, run.Crashes,
							run.Failures, len(h.attempts(job)), run.Reason,
						)
					}
					time.Sleep(20 * time.Second)
					if run := h.run(long); run.State != carillon.StateSucceeded {
						t.Errorf("what ran is %s: %s", run.State, run.Reason)
					}
				})
		})
	}
}

func TestWhatAWorkerHasJustBegunGoesOnWhileItStops(t *testing.T) {
	for name, build := range map[string]func(*house){"inside a node": func(*house) {}, "elsewhere": remote} {
		t.Run(name, func(t *testing.T) {
			in(t, func(h *house) { h.handle, h.drain = slow(3*time.Second), time.Minute; build(h) },
				func(h *house) {
					time.Sleep(100 * time.Millisecond) // a pull of this second has just begun
					job := h.submit(1, nil)[0].ID
					time.Sleep(300 * time.Millisecond) // it has begun, and no beat has listed it
					h.endWorker()
					time.Sleep(10 * time.Second)
					h.expect(h.run(job), carillon.StateSucceeded, 1, 0)
				})
		})
	}
}
