package chaos

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/chaos/check"
)

// stepClock sets the clock by which a node goes, forward or back by the CLOCK_STEP that it was started with
// (see failing). The node corrects itself when it next compares its clock with the database's, within about
// ten seconds.
func (c *cluster) stepClock(node string, forward bool) {
	c.t.Helper()
	sig := syscall.SIGUSR2
	if forward {
		sig = syscall.SIGUSR1
	}
	if err := c.nodes[node].Signal(sig); err != nil {
		c.t.Fatal(err)
	}
}

// storeClock is the function that reads the clock of a PostgreSQL server, with another time.
const storeClock = `CREATE OR REPLACE FUNCTION carillon.clock() RETURNS bigint LANGUAGE sql VOLATILE PARALLEL SAFE
  AS $$ SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint + (%d) $$`

// setStoreClock sets the clock of a PostgreSQL database ahead of the machine's, or behind it if ahead is
// negative.
func setStoreClock(ctx context.Context, store string, ahead time.Duration) error {
	db, err := pgx.Connect(ctx, store)
	if err != nil {
		return err
	}
	defer db.Close(ctx)
	_, err = db.Exec(ctx, fmt.Sprintf(storeClock, ahead.Milliseconds()))
	return err
}

// A node that has read a wrong time from its database starts runs early until it compares the clocks again.
// So here early starts are allowed up to the step.
func TestClocksOfNodesThatAreSetForwardAndBackLoseNothingAndRunNothingTwiceAtOnce(t *testing.T) {
	t.Parallel()
	const step = 30 * time.Second
	c := newCluster(t, engines[0].database(t), 2*time.Minute)
	for _, name := range []string{"node-1", "node-2"} {
		c.failing(name, "", "CLOCK_STEP="+step.String())
	}
	c.start("node-1", "node-2")
	c.handlers("worker-1", "default")
	c.handlers("worker-2", "default")
	defs, begin := every(20*time.Millisecond, 16*time.Second)
	accepted := c.submit(defs...)
	recurring := handledJob("default", Work{For: carillon.Duration(50 * time.Millisecond)})
	recurring.Schedule.Every, recurring.Schedule.MaxRuns = carillon.Duration(time.Second), 15
	recurring.Overlap, recurring.Misfire.Policy = carillon.OverlapQueueAll, carillon.MisfireAll
	accepted = append(accepted, c.submit(repeat(recurring, 20)...)...)
	for i, forward := range []bool{true, false, false, true} {
		last(c.ctx, time.Until(begin.Add(time.Duration(1+3*i)*time.Second).Std()))
		c.stepClock([]string{"node-1", "node-2"}[i%2], forward)
	}

	runs := c.all()
	c.alive()
	c.complete(accepted, runs)
	early := 0
	for _, l := range c.lines() {
		switch before := l.Run.Due.Sub(l.At); {
		case l.Kind == check.KindStart && before > step:
			t.Errorf("early by %s: %s", before, l.Run)
		case l.Kind == check.KindStart && before > 0:
			early++
		}
	}
	for _, broken := range check.Lines(dueAtOnce(c.lines())) {
		t.Error(broken)
	}
	for _, name := range []string{"node-1", "node-2"} {
		if !c.said(name, "clock step: ") {
			t.Errorf("the clock of %s was not set", name)
		}
	}
	t.Logf("%d runs, %d started early; witnesses: %s", len(runs), early, check.Summary(c.lines()))
}

// dueAtOnce are lines by which no start is early, for a test that allows early starts.
func dueAtOnce(lines []check.Line) []check.Line {
	for i := range lines {
		lines[i].At = max(lines[i].At, lines[i].Run.Due)
	}
	return lines
}
