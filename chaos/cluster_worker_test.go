package chaos

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/worker/protocol"
)

// runsOf are the runs of one-off jobs.
func runsOf(jobs []carillon.Job) (ids []carillon.RunID) {
	for _, job := range jobs {
		ids = append(ids, only(job))
	}
	return ids
}

func repeat(def carillon.Definition, n int) []carillon.Definition {
	defs := make([]carillon.Definition, n)
	for i := range defs {
		defs[i] = def
	}
	return defs
}

// expect compares the record of an ended run. If the machine keeps a worker from beating, the worker loses
// its runs, as it should: so a run can have more losses if the machine stood still.
func (c *cluster) expect(run carillon.Run, attempt, losses int32) {
	c.t.Helper()
	if more := run.Losses - losses; more > 0 {
		if stood := c.machine.stood(run.ID.Due.Std(), time.Now()); stood > protocol.LeaseTime/5 {
			c.t.Logf("%d losses more than usual: the machine stood still for %s", more, stood)
			attempt, losses = attempt+more, losses+more
		}
	}
	if run.State != carillon.StateSucceeded || run.Attempt != attempt || run.Losses != losses ||
		run.Failures != 0 {
		c.t.Errorf(
			"want it succeeded in attempt %d, with %d losses and no failure: %s", attempt, losses, row(run),
		)
	}
}

func TestAKilledWorkersRunsStartElsewhereWithinTenSecondsAndOthersAreNotDisturbed(t *testing.T) {
	t.Parallel()
	onOne(t, func(t *testing.T, e *engine) {
		c := newCluster(t, e.database(t), 2*time.Minute)
		c.start("node-1", "node-2", "node-3")
		dies := []*Process{c.handlers("dies-1", "moving"), c.commands("dies-2", "moving-commands")}
		moving := runsOf(c.submit(append(repeat(interruptedHandler("moving", 8*time.Second), 10),
			repeat(c.interrupted("moving-commands", 8*time.Second), 2)...)...))
		c.started(1, moving...)
		c.handlers("lives-1", "moving,steady")
		c.commands("lives-2", "moving-commands,steady-commands")
		const long = 25 * time.Second // longer than every lease, session and restart
		steady := runsOf(c.submit(
			handledJob("steady", Work{For: carillon.Duration(long)}), c.commandJob("steady-commands", long),
		))
		c.started(1, steady...)

		killed := carillon.Now()
		for _, p := range dies {
			p.Kill()
		}
		worst := time.Duration(0)
		for id, at := range c.started(2, moving...) {
			worst = max(worst, at.Sub(killed))
			allowed := 10*time.Second + c.machine.allowance(killed.Std(), at.Std())
			run := c.get(id)
			if c.machine.stood(killed.Std(), at.Std()) > protocol.LeaseTime/5 { // another worker lost it too
				allowed += time.Duration(run.Losses-1) * protocol.UnknownTime
			}
			if at.Sub(killed) > allowed {
				t.Errorf("started again %s after its worker was killed: %s", at.Sub(killed), row(run))
			}
		}
		t.Logf("runs of a killed worker started again within %s", worst)
		for i, name := range []string{"node-1", "node-2", "node-3"} {
			if i == 1 {
				c.nodes[name].Kill()
			} else if err := c.nodes[name].Stop(); err != nil {
				t.Errorf("stop %s: %v", name, err)
			}
			c.launch(name)
			c.ready(name)
		}

		for _, run := range c.ended(steady...) {
			c.expect(run, 1, 0)
		}
		for _, run := range c.ended(moving...) {
			c.expect(run, 2, 1)
		}
		c.truthful(c.all())
	})
}

func TestAFrozenWorkersResultIsRefusedAndItsCommandsAreKilledMeanwhile(t *testing.T) {
	t.Parallel()
	onOne(t, func(t *testing.T, e *engine) {
		c := newCluster(t, e.database(t), 2*time.Minute)
		c.start("node-1", "node-2")
		frozen := c.commands("frozen", "default")
		job := only(c.submit(c.interrupted("default", 10*time.Second))[0])
		c.started(1, job)
		if err := frozen.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		stopped := carillon.Now()
		silent := c.silent(stopped)
		t.Logf("its command was killed %s after the freeze", silent.Sub(stopped))
		if silent.Sub(stopped) > carillon.SessionTime+c.machine.allowance(stopped.Std(), silent.Std()) {
			t.Errorf("its command lived until %s, longer than the worker's session", silent)
		}
		c.commands("other", "default")
		t.Logf("its run started again %s after the freeze", c.started(2, job)[job].Sub(stopped))
		last(c.ctx, time.Until(stopped.Add(12*time.Second).Std()))
		if err := frozen.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		poll(t, c.ctx, "its result to be refused", func() bool { return c.said("frozen", "result refused") })
		c.expect(c.ended(job)[0], 2, 1)
		c.truthful(c.all())
	})
}

// What a frozen process does when it thaws cannot be undone, so the bodies can overlap here: the cluster must
// accept only one result.
func TestAFrozenHandlersSuccessIsRefusedAndTheRunThatReplacedItStands(t *testing.T) {
	t.Parallel()
	onOne(t, func(t *testing.T, e *engine) {
		c := newCluster(t, e.database(t), 2*time.Minute)
		c.start("node-1", "node-2")
		frozen := c.handlers("frozen", "default")
		job := only(c.submit(handledJob("default", Work{For: carillon.Duration(10 * time.Second)}))[0])
		began := c.started(1, job)[job]
		if err := frozen.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		c.handlers("other", "default")
		c.started(2, job)
		last(c.ctx, time.Until(began.Add(14*time.Second).Std()))
		if err := frozen.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		run := c.ended(job)[0]
		c.expect(run, 2, 1)
		if want := fmt.Sprint(run.Attempt); run.Output == nil || string(run.Output.Result) != want {
			t.Errorf("want the result of attempt %s: %s", want, row(run))
		}
	})
}

func TestSIGTERMLetsRunningWorkEndOrHandsItBack(t *testing.T) {
	t.Parallel()
	onOne(t, func(t *testing.T, e *engine) {
		c := newCluster(t, e.database(t), 2*time.Minute)
		c.start("node-1")
		// Launch uses the last value of a flag
		c.launch("node-2", "--concurrency", "4", "--queues", "inner", "--drain", "4s")
		c.ready("node-2")
		c.commands("worker", "outer", "--drain", "4s")
		t.Run("of a node", func(t *testing.T) { c.drains(t, "node-2", "inner") })
		t.Run("of a worker", func(t *testing.T) { c.drains(t, "worker", "outer") })
		c.truthful(c.all())
	})
}

// drains tells a process to stop. Its short run ends, its long run is handed back, and another worker goes on
// with that one.
func (c *cluster) drains(t *testing.T, name, queue string) {
	i := slices.IndexFunc(c.processes, func(p named) bool { return p.name == name })
	p := c.processes[i]
	jobs := c.submit(c.commandJob(queue, 2*time.Second), c.interrupted(queue, time.Second))
	short, long := only(jobs[0]), only(jobs[1])
	c.started(1, short, long)
	c.commands("other-"+queue, queue)
	poll(t, c.ctx, "another worker", func() bool { return c.said("other-"+queue, "Registered") })

	ended := make(chan error, 1)
	asked := time.Now()
	go func() { ended <- p.Stop() }()
	poll(t, c.ctx, name+" to drain", func() bool { return c.said(name, "waiting for running work") })
	late := only(c.submit(c.commandJob(queue, 0))[0])
	select {
	case err := <-ended:
		t.Logf("ended %s after SIGTERM", time.Since(asked).Round(time.Millisecond))
		if err != nil {
			t.Errorf("ended with %v", err)
		}
	case <-c.ctx.Done():
		t.Fatal("it does not end")
	}
	gone := carillon.Now()
	at := c.started(2, long)[long]
	again := at.Sub(gone)
	t.Logf("what was handed back started again %s after that", again)
	if again > 10*time.Second+c.machine.allowance(gone.Std(), at.Std()) {
		t.Errorf("handed back, and started again only %s later: %s", again, row(c.get(long)))
	}
	first := c.ended(short)[0]
	c.expect(first, 1, 0)
	c.expect(c.ended(long)[0], 2, 1)
	newest := c.ended(late)[0]
	c.expect(newest, 1, 0)
	if newest.Worker == first.Worker {
		t.Errorf("claimed by a process that was stopping: %s", row(newest))
	}
}
