package simulate

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon-run/carillon"
)

var nthStep = flag.Int("nth", 1, "of how many calls to the store one fails; 1: each in turn")

// mishap is what happens to one call to the store.
type mishap string

const (
	mishapNone       mishap = ""
	mishapFails      mishap = "fails"
	mishapUnheard    mishap = "is performed, and its answer is lost"
	mishapDiesBefore mishap = "is not sent: the node panics"
	mishapDiesAfter  mishap = "is performed, and the node panics"
)

// nth lets the n-th call over a link fail.
type nth struct {
	at   int
	how  mishap
	kill func()

	mu    sync.Mutex
	calls int
}

func (n *nth) next() mishap {
	if n == nil {
		return mishapNone
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.calls++; n.calls == n.at {
		return n.how
	}
	return mishapNone
}

// Every operation of callers, of the dispatcher and of the loops comes in the script, so every call to the
// store does. Each of them fails in a world of its own, in four ways.
func TestAnyCallToTheStoreMayFail(t *testing.T) {
	calls := nthCall(t, 0, mishapNone)
	if calls < 100 {
		t.Fatalf("the script makes only %d calls", calls)
	}
	worlds := make(chan func(t *testing.T))
	go func() {
		defer close(worlds)
		for _, how := range []mishap{mishapFails, mishapUnheard, mishapDiesBefore, mishapDiesAfter} {
			for n := 1 + rand.IntN(*nthStep); n <= calls; n += *nthStep {
				worlds <- func(t *testing.T) { nthCall(t, n, how) }
			}
		}
	}()
	t.Run("worlds", func(t *testing.T) {
		for range runtime.GOMAXPROCS(0) {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				for world := range worlds {
					world(t)
				}
			})
		}
	})
	t.Logf("%d calls, one in %d of them failed in each of 4 ways", calls, *nthStep)
}

// nthCall plays the script in a world whose n-th call to the store has a mishap, and returns how many calls
// there were.
func nthCall(t *testing.T, n int, how mishap) int {
	fails := &nth{at: n, how: how}
	synctest.Test(t, func(t *testing.T) {
		seedWorld(t, uint64(n))
		w := newWorld(t, uint64(n))
		w.nth = fails
		w.startNode(10)
		w.tell("call %d %s", n, how)
		time.Sleep(2 * carillon.SessionTime)
		w.script()
		settled := w.until(15*time.Minute, func() bool { return len(w.unfinished(t.Context())) == 0 })
		w.end()
		v := w.check(context.Background(), settled)
		if len(v.broken) > 0 {
			t.Errorf(
				"call %d %s:\n  %s\n  %s", n, how, strings.Join(v.broken, "\n  "),
				strings.Join(w.story, "\n  "),
			)
		}
	})
	return fails.calls
}

// live is the node of a world that has only one: another one if it has died.
func (w *world) live() *node {
	if n := w.nodes[0]; n.dead() {
		w.remove(n)
		w.startNode(10)
	}
	return w.nodes[0]
}

// until waits for something to become true, and starts a node again that has died.
func (w *world) until(most time.Duration, done func() bool) bool {
	for end := time.Now().Add(most); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		w.live()
		if done() {
			return true
		}
	}
	return false
}

// insist sends a command until it is answered. An answer that says that it is too late says that an earlier
// try, whose answer was lost, was performed.
func (w *world) insist(what string, do func(ctx context.Context, n *node) error) {
	w.tell("%s", what)
	answered := w.until(10*time.Minute, func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		n := w.live()
		err := do(ctx, n)
		return n.pass(ctx) == nil &&
			(err == nil || errors.Is(err, carillon.ErrConflict) || errors.Is(err, carillon.ErrNotFound))
	})
	if !answered {
		w.t.Errorf("no answer: %s", what)
	}
}

// accept submits orders in one batch.
func (w *world) accept(orders ...*order) {
	w.insist("submit", func(ctx context.Context, n *node) error {
		defs := make([]carillon.Definition, len(orders))
		for i, o := range orders {
			defs[i] = o.def
			if err := defs[i].Admit(n.clock.Now()); err != nil {
				w.t.Fatal(err)
			}
		}
		jobs, err := n.ledger.Submit(ctx, carillon.DefaultNamespace, defs)
		for i := range jobs {
			orders[i].job = jobs[i].ID
		}
		return err
	})
	w.orders = append(w.orders, orders...)
}

// written is an order that the script has.
func written(name string, does work, set func(d *carillon.Definition)) *order {
	o := &order{tenant: carillon.DefaultNamespace, work: does}
	d := &o.def
	d.Name, d.Type, d.Target.Handler = name, "test", &carillon.Handler{}
	d.Retry.MaxCrashes, d.Retry.Delay = 100, carillon.Duration(time.Second)
	d.Payload, _ = json.Marshal(does)
	set(d)
	return o
}

func recurring(overlap carillon.Overlap) func(d *carillon.Definition) {
	return func(d *carillon.Definition) {
		d.Schedule.Every, d.Schedule.MaxRuns, d.Overlap = carillon.Duration(time.Second), 3, overlap
	}
}

// script performs every operation there is once.
func (w *world) script() {
	atOnce := func(*carillon.Definition) {}
	late := func(d *carillon.Definition) { d.Schedule.After = carillon.Duration(30 * time.Second) }
	takes := work{Takes: 1500 * time.Millisecond}
	w.accept(written("plain", work{}, atOnce))
	w.accept(
		written("fails once", work{Fails: 1}, atOnce), written("saves", work{Takes: time.Second, Saves: true}, atOnce),
		written("skip", takes, recurring(carillon.OverlapSkip)),
		written("queue", takes, recurring(carillon.OverlapQueue)),
		written("queue_all", takes, recurring(carillon.OverlapQueueAll)),
		written("allow", takes, recurring(carillon.OverlapAllow)),
	)
	w.repeated(
		written("keyed", work{}, func(d *carillon.Definition) {
			d.Schedule.After, d.Overlap = carillon.Duration(time.Second), carillon.OverlapAllow
		}),
		written("keyed too", takes, atOnce),
	)
	// Not for ever: if the answer to its submit is lost, there is another one that is not stopped.
	long := written("stopped", work{Takes: 5 * time.Minute}, atOnce)
	canceled, paused := written("canceled", work{}, late), written("paused", work{}, recurring(carillon.OverlapSkip))
	edited, dead := written("edited", work{}, recurring(carillon.OverlapSkip)), written("dead", work{Fails: 3}, atOnce)
	hurried := written("hurried", work{Fails: 1}, func(d *carillon.Definition) {
		d.Retry.Delay = carillon.Duration(time.Minute)
	})
	w.accept(long, canceled, paused, edited, dead, hurried)
	w.change(paused, "pause", func(ctx context.Context, n *node, job carillon.JobID) error {
		paused.pauses = true
		_, err := n.ledger.PauseJob(ctx, carillon.DefaultNamespace, job)
		return err
	})
	w.change(canceled, "cancel", func(ctx context.Context, n *node, job carillon.JobID) error {
		canceled.asked = true
		_, err := n.ledger.CancelJob(ctx, carillon.DefaultNamespace, job, false)
		return err
	})
	w.change(edited, "edit", func(ctx context.Context, n *node, job carillon.JobID) error {
		_, err := n.ledger.EditJob(ctx, carillon.DefaultNamespace, job, func(d *carillon.Definition) error {
			d.Labels = map[string]string{"edited": "yes"}
			return nil
		})
		return err
	})
	w.change(edited, "run now", func(ctx context.Context, n *node, job carillon.JobID) error {
		run, err := n.ledger.RunNow(ctx, carillon.DefaultNamespace, job, nil)
		edited.heard(run, err)
		return err
	})
	w.onRun(long, carillon.StateRunning, "cancel the run", func(ctx context.Context, n *node, id carillon.RunID) error {
		long.asked = true
		_, err := n.ledger.CancelRun(ctx, carillon.DefaultNamespace, id)
		return err
	})
	w.onRun(dead, carillon.StateFailed, "redrive", func(ctx context.Context, n *node, id carillon.RunID) error {
		run, err := n.ledger.RetryDeadLetter(ctx, carillon.DefaultNamespace, id, nil)
		dead.heard(run, err)
		return err
	})
	w.onRun(hurried, carillon.StateWaiting, "try now", func(ctx context.Context, n *node, id carillon.RunID) error {
		run, err := n.ledger.RetryRun(ctx, carillon.DefaultNamespace, id)
		if err != nil || run.ID != id { // sent again after the run has ended, it asks for another run
			hurried.heard(run, err)
		}
		return err
	})
	w.change(paused, "resume", func(ctx context.Context, n *node, job carillon.JobID) error {
		paused.resumed = realTime()
		_, err := n.ledger.ResumeJob(ctx, carillon.DefaultNamespace, job)
		return err
	})
}

func (w *world) change(
	o *order, what string, do func(ctx context.Context, n *node, job carillon.JobID) error,
) {
	w.insist(what, func(ctx context.Context, n *node) error { return do(ctx, n, o.job) })
}

// onRun sends a command about the run of a one-off when the run has a state.
func (w *world) onRun(
	o *order, state carillon.State, what string,
	do func(ctx context.Context, n *node, id carillon.RunID) error,
) {
	var id carillon.RunID
	is := func() bool {
		page, err := w.store.FindRuns(context.Background(), carillon.RunQuery{
			Namespace: carillon.DefaultNamespace, Job: o.job, Limit: 10,
		})
		if err != nil || len(page.Runs) == 0 {
			return false
		}
		run := page.Runs[0]
		id = run.ID
		return run.State == state && (state != carillon.StateWaiting || run.Failures > 0)
	}
	if !w.until(5*time.Minute, is) {
		w.t.Errorf("the run of %s did not become %s", o.def.Name, state)
		return
	}
	w.insist(what, func(ctx context.Context, n *node) error { return do(ctx, n, id) })
}
