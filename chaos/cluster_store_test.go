package chaos

import (
	"context"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/chaos/check"
	"github.com/carillon-run/carillon/porttest/server"
	"github.com/carillon-run/carillon/worker/protocol"
)

// alive checks that no process of the cluster has ended by itself.
func (c *cluster) alive() {
	c.t.Helper()
	for _, p := range c.processes {
		if p.Crashed() {
			c.t.Errorf("%s ended with the database: %v", p.name, p.err)
		}
	}
}

func TestADatabaseThatCrashesUnderLoadLosesNothingAndEndsNoNode(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, e *engine) {
		db := e.own(t)
		c := newCluster(t, db.URL, 2*time.Minute)
		c.start("node-1", "node-2")
		c.handlers("worker-1", "default")
		c.handlers("worker-2", "default")
		defs, begin := every(10*time.Millisecond, 9*time.Second)
		for i := range defs {
			defs[i].Payload = handledJob("", Work{For: carillon.Duration(100 * time.Millisecond)}).Payload
		}
		accepted := c.submit(defs...)
		for i, halt := range []func() error{db.Kill, func() error { return db.Restart(c.ctx) }} {
			last(c.ctx, time.Until(begin.Add(time.Duration(2+4*i)*time.Second).Std()))
			if err := halt(); err != nil {
				t.Fatal(err)
			}
			down := time.Now()
			accepted = append(accepted, c.startAgain(db.Start, handledJob("default", Work{}))...)
			t.Logf(
				"the cluster took a job %s after the database had ended",
				time.Since(down).Round(time.Millisecond),
			)
		}
		runs := c.all()
		c.alive()
		c.complete(accepted, runs)
		t.Logf("%d runs; witnesses: %s", len(runs), check.Summary(c.truthful(runs)))
	})
}

// startAgain starts the database while a caller submits a job and waits for it to be accepted.
func (c *cluster) startAgain(start func(ctx context.Context) error, def carillon.Definition) []carillon.Job {
	c.t.Helper()
	started := make(chan error, 1)
	go func() {
		last(c.ctx, time.Second)
		started <- start(c.ctx)
	}()
	jobs := c.submit(def)
	if err := <-started; err != nil {
		c.t.Fatal(err)
	}
	return jobs
}

// After a short freeze the database answers requests from before it.
func TestADatabaseThatIsFrozenForLongerThanTheLeaseStopsWorkAsALoss(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, e *engine) { frozenFor(t, e.own(t), 10*time.Second) })
}

// After a long freeze all connections are new.
func TestADatabaseThatIsFrozenForLongStopsWorkAsALoss(t *testing.T) {
	t.Parallel()
	onOne(t, func(t *testing.T, e *engine) { frozenFor(t, e.own(t), 30*time.Second) })
}

func frozenFor(t *testing.T, db *server.Server, length time.Duration) {
	c := newCluster(t, db.URL, 2*time.Minute)
	c.start("node-1", "node-2")
	c.handlers("worker-1", "default")
	c.commands("worker-2", "commands")
	defs := []carillon.Definition{
		interruptedHandler("default", 2*time.Second), c.interrupted("commands", 2*time.Second),
	}
	for i := range defs {
		defs[i].Retry.MaxCrashes = 1 // a loss that is taken for a crash quarantines the run at once
	}
	running := runsOf(c.submit(defs...))
	c.started(1, running...)
	sessions := c.sessions()
	// A node ends the sessions of other members only after it has watched them for this long. By then little
	// else goes to the database, so the last request before the freeze, which the database performs after it,
	// is the one that ends the sessions of silent members.
	last(c.ctx, carillon.SessionTime+3*time.Second)

	if err := db.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer db.Signal(syscall.SIGCONT) // a frozen database could not be stopped
	frozen := carillon.Now()
	silent := c.silent(frozen)
	stopped := silent.Sub(frozen)
	t.Logf("the work was stopped %s after the freeze", stopped)
	if stopped > carillon.SessionTime+time.Second+c.machine.allowance(frozen.Std(), silent.Std()) {
		t.Errorf("work went on for %s after the freeze: the lease is %s", stopped, protocol.LeaseTime)
	}
	last(c.ctx, time.Until(frozen.Add(length).Std()))
	c.alive()
	if err := db.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	thawed := carillon.Now()
	runs := c.ended(running...)
	stood := c.machine.stood(frozen.Std(), time.Now())
	if now := c.sessions(); !slices.Equal(now, sessions) && stood < time.Second {
		t.Errorf(
			"sessions that were alive all the time were ended: before the freeze there were %v, then %v",
			sessions, now,
		)
	}
	worst := time.Duration(0)
	for _, l := range c.lines() {
		if l.Kind == check.KindStart && l.Attempt == 2 {
			worst = max(worst, l.At.Sub(thawed))
		}
	}
	t.Logf("what was stopped had started again %s after the thaw", worst)
	for _, run := range runs {
		if (run.State != carillon.StateSucceeded || run.Failures != 0 || run.Losses != run.Attempt-1) &&
			stood < time.Second {
			t.Errorf("want losses, no failure and no crash: %s", row(run))
		}
	}
	c.truthful(c.all())
	c.alive()
}
