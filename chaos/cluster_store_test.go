package chaos

import (
	"context"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/porttest/server"
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
			last(c.ctx, begin.Add(time.Duration(2+4*i)*time.Second).Until())
			if err := halt(); err != nil {
				t.Fatal(err)
			}
			down := time.Now()
			accepted = append(accepted, c.startAgain(db.Start, handledJob("default", Work{}))...)
			t.Logf("the cluster took a job %s after the database had ended", time.Since(down).Round(time.Millisecond))
		}
		runs := c.all()
		c.alive()
		c.complete(accepted, runs)
		t.Logf("%d runs; witnesses: %s", len(runs), Summary(c.truthful(runs)))
	})
}

// startAgain starts the database while somebody asks for a job to be taken.
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

// A short freeze is a case of its own: after a long one all connections are new, after a short one what was asked before it
// is answered.
func TestADatabaseThatIsFrozenForLongerThanTheLeaseStopsWorkAsALoss(t *testing.T) {
	t.Parallel()
	for _, length := range []time.Duration{10 * time.Second, 30 * time.Second} {
		t.Run(length.String(), func(t *testing.T) {
			t.Parallel()
			onEach(t, func(t *testing.T, e *engine) { frozenFor(t, e.own(t), length) })
		})
	}
}

func frozenFor(t *testing.T, db *server.Server, length time.Duration) {
	c := newCluster(t, db.URL, 2*time.Minute)
	c.start("node-1", "node-2")
	c.handlers("worker-1", "default")
	c.commands("worker-2", "commands")
	defs := []carillon.Definition{interruptedHandler("default", 2*time.Second), c.interrupted("commands", 2*time.Second)}
	for i := range defs {
		defs[i].Retry.MaxCrashes = 1 // the first time it is taken for a crash it is quarantined
	}
	running := runsOf(c.submit(defs...))
	c.started(1, running...)
	sessions := c.sessions()
	// Only who has watched for so long ends the sessions of others, and then little else is asked of the database: what was
	// asked last before the freeze, and is done after it, is to end the sessions of those who are silent.
	last(c.ctx, carillon.SessionTime+3*time.Second)

	if err := db.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer db.Signal(syscall.SIGCONT) // frozen it could not be stopped
	frozen := carillon.Now()
	silent := c.silent(frozen)
	stopped := silent.Sub(frozen)
	t.Logf("the work was stopped %s after the freeze", stopped)
	if stopped > carillon.SessionTime+time.Second+c.machine.allowance(frozen.Std(), silent.Std()) {
		t.Errorf("work went on for %s after the freeze: the lease is %s", stopped, carillon.LeaseTime)
	}
	last(c.ctx, frozen.Add(length).Until())
	c.alive()
	if err := db.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	thawed := carillon.Now()
	runs := c.ended(running...)
	stood := c.machine.stood(frozen.Std(), time.Now())
	if now := c.sessions(); !slices.Equal(now, sessions) && stood < time.Second {
		t.Errorf("sessions that were alive all the time were ended: before the freeze there were %v, then %v", sessions, now)
	}
	worst := time.Duration(0)
	for _, l := range c.lines() {
		if l.Kind == "START" && l.Attempt == 2 {
			worst = max(worst, l.At.Sub(thawed))
		}
	}
	t.Logf("what was stopped had started again %s after the thaw", worst)
	for _, run := range runs {
		if (run.State != carillon.Succeeded || run.Failures != 0 || run.Losses != run.Attempt-1) && stood < time.Second {
			t.Errorf("want losses, no failure and no crash: %s", row(run))
		}
	}
	c.truthful(c.all())
	c.alive()
}
