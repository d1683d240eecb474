package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/carillon-run/carillon/bench/peers/peer"
)

// instant: many jobs are due at the very same moment, while a process waits for them.
func instant(ctx context.Context, m *measurement) error {
	jobs := m.jobs()
	rate := m.bulk[m.peer.name]
	if rate == 0 {
		rate = 10_000
	}
	lead := time.Duration(1.5*float64(jobs)/rate*float64(time.Second)) + 3*time.Second
	for {
		took, err := m.instantIn(ctx, jobs, min(lead, filling))
		var missed passed
		if !errors.As(err, &missed) || lead >= filling {
			return err
		}
		m.say("handing in took %s: once more with more time", took.Round(time.Second))
		lead = took*3/2 + 5*time.Second
		m.endAll()
		if err := m.discard(m.at); err != nil {
			return err
		}
		if m.at, err = m.fresh(ctx, m.peer); err != nil {
			return err
		}
		m.prepared = false
	}
}

// passed says that the moment came before all jobs were submitted.
type passed struct{ took time.Duration }

func (p passed) Error() string {
	return fmt.Sprintf("handing in took %s: the instant had passed", p.took.Round(time.Second))
}

func (m *measurement) instantIn(
	ctx context.Context, jobs int, lead time.Duration,
) (took time.Duration, err error) {
	c, err := m.start(ctx)
	if err != nil {
		return 0, err
	}
	if err := m.settle(ctx, m.at); err != nil {
		return 0, err
	}
	if err := m.work(ctx, c); err != nil {
		return 0, err
	}
	begin := time.Now()
	due := begin.Add(lead).Truncate(time.Second).Add(time.Second)
	if err := m.fillBy(ctx, c, jobs, peer.Job{Due: due.UnixMicro()}); err != nil {
		return 0, err
	}
	if took = time.Since(begin); time.Until(due) < 500*time.Millisecond {
		return took, passed{took}
	}
	limit := patience
	if jobs > 100_000 {
		limit = patienceBig
	}
	wait := time.Until(due) + limit
	a, err := c.ask(ctx, peer.Command{Do: "await", Jobs: jobs, Seconds: wait.Seconds()}, wait+patience)
	if err != nil {
		return took, err
	}
	note := ""
	if a.Over {
		note = fmt.Sprintf("stopped after %.0f s, %d of %d started", limit.Seconds(), a.Jobs, jobs)
	}
	if a.Jobs == 0 {
		return took, fmt.Errorf("no job had started %s after the instant", limit)
	}
	m.times(a.Late, note)
	m.figure("seconds", seconds(due, time.UnixMicro(a.At)), "s", note)
	m.figure("rss", memoryOf(c.cmd.Process.Pid, "VmHWM"), "MB", "peak")
	return took, nil
}

// pickup: from the call that submits a job to its start, on an idle system.
func pickup(ctx context.Context, m *measurement) error {
	c, err := m.start(ctx)
	if err != nil {
		return err
	}
	if err := m.settle(ctx, m.at); err != nil {
		return err
	}
	if err := m.work(ctx, c); err != nil {
		return err
	}
	return m.pickupBy(ctx, c)
}

func (m *measurement) pickupBy(ctx context.Context, c *child) error {
	if err := pause(ctx, time.Second); err != nil {
		return err
	}
	a, err := c.ask(ctx, peer.Command{Do: "pickup", Jobs: m.count(300), Gap: 10}, 2*patience)
	if err != nil {
		return err
	}
	m.times(a.Late, "")
	return nil
}

// idle is how long an idle process is measured.
const idle = 20 * time.Second

// ahead: many jobs wait a day ahead. It measures a fresh process, as after a restart.
func ahead(ctx context.Context, m *measurement) error {
	c, err := m.start(ctx)
	if err != nil {
		return err
	}
	if err := m.stuff(ctx, c, m.jobs(), false); err != nil {
		return err
	}
	if c, err = m.restart(ctx, c); err != nil {
		return err
	}
	if err := m.work(ctx, c); err != nil {
		return err
	}
	if err := pause(ctx, 2*time.Second); err != nil { // by now loading is over
		return err
	}
	own, server := m.spent(c)
	begin := time.Now()
	if err := pause(ctx, idle); err != nil {
		return err
	}
	m.shares(c, own, server, time.Since(begin))
	m.figure("rss", memoryOf(c.cmd.Process.Pid, "VmRSS"), "MB", "")
	return m.pickupBy(ctx, c)
}

// shares records how much of a core was used since then.
func (m *measurement) shares(c *child, own, server usage, since time.Duration) {
	ownAfter, serverAfter := m.spent(c)
	m.figure("cpu", 100*ownAfter.minus(own).cpu.Seconds()/since.Seconds(), "%", "")
	if m.at.server != 0 {
		m.figure("cpu_server", 100*serverAfter.minus(server).cpu.Seconds()/since.Seconds(), "%", "")
	}
}

// recurring: many recurring jobs. The measured time begins in the middle of a period.
func recurring(ctx context.Context, m *measurement) error {
	const every, periods = 10 * time.Second, 6
	jobs := m.count(10_000)
	c, err := m.start(ctx)
	if err != nil {
		return err
	}
	if err := m.work(ctx, c); err != nil {
		return err
	}
	if _, err := c.ask(
		ctx, peer.Command{Do: "recur", Jobs: jobs, Every: every.Seconds()}, filling,
	); err != nil {
		return err
	}
	if err := pause(ctx, every+every/2); err != nil {
		return err
	}
	// It also forgets how late earlier starts were.
	before, err := c.ask(ctx, peer.Command{Do: "await"}, answering)
	if err != nil {
		return err
	}
	own, server := m.spent(c)
	begin := time.Now()
	if err := pause(ctx, periods*every); err != nil {
		return err
	}
	m.shares(c, own, server, time.Since(begin))
	a, err := c.ask(ctx, peer.Command{Do: "await"}, answering)
	if err != nil {
		return err
	}
	m.figure("ran", float64(a.Jobs-before.Jobs), "starts", "")
	m.figure("expected", float64(periods*jobs), "starts", "")
	m.times(a.Late, "")
	return nil
}

// killed: a process is killed with the jobs that it runs. It measures how long another process takes to start
// all of them.
func killed(ctx context.Context, m *measurement) error {
	const jobs, sleep, limit = 10, 3000, 90 * time.Second
	if err := m.fill(ctx, jobs, peer.Job{Sleep: sleep}); err != nil {
		return err
	}
	a, err := m.start(ctx)
	if err != nil {
		return err
	}
	b, err := m.start(ctx)
	if err != nil {
		return err
	}
	if err := m.work(ctx, a); err != nil {
		return err
	}
	if _, _, over, err := counted(ctx, []*child{a}, 1, patience); err != nil || over {
		return errors.Join(err, errors.New("no job had started"))
	}
	ran, _, _, err := counted(ctx, []*child{a}, jobs, sleep*time.Millisecond/2)
	if err != nil {
		return err
	}
	begin := time.Now()
	_ = syscall.Kill(a.cmd.Process.Pid, syscall.SIGKILL)
	<-a.ended
	if err := m.work(ctx, b); err != nil {
		return err
	}
	again, at, over, err := counted(ctx, []*child{b}, jobs, limit)
	if err != nil {
		return err
	}
	note := ""
	if ran < jobs {
		note = fmt.Sprintf("it ran %d at a time", ran)
	}
	if over {
		note = fmt.Sprintf("not within %.0f s: %d of %d", limit.Seconds(), again, jobs)
	}
	m.figure("seconds", seconds(begin, at), "s", note)
	return nil
}
