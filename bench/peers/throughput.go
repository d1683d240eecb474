package main

import (
	"context"
	"fmt"
	"time"

	"github.com/carillon-run/carillon/bench/peers/peer"
)

// submit: sixteen clients submit jobs that are due tomorrow, one by one, and each waits for its own.
func submit(ctx context.Context, m *measurement) error {
	c, err := m.start(ctx)
	if err != nil {
		return err
	}
	if err := m.settle(ctx, m.at); err != nil {
		return err
	}
	a, err := c.ask(
		ctx, peer.Command{Do: "submit", Clients: 16, Seconds: max(5*min(m.scale, 1), 1)}, patience,
	)
	if err != nil {
		return err
	}
	m.figure("rate", float64(a.Jobs)/max(a.Seconds, 1e-6), "jobs/s", "")
	return nil
}

// bulk: jobs that are due tomorrow, submitted in the quickest way there is.
func bulk(ctx context.Context, m *measurement) error {
	jobs, few, err := m.affordable(ctx, m.count(200_000))
	if err != nil {
		return err
	}
	c, err := m.start(ctx)
	if err != nil {
		return err
	}
	if err := m.settle(ctx, m.at); err != nil {
		return err
	}
	begin := time.Now()
	if err := m.fillBy(ctx, c, jobs, peer.Job{Due: tomorrow()}); err != nil {
		return err
	}
	rate := float64(jobs) / seconds(begin, time.Now())
	m.bulk[m.peer.name] = rate
	m.figure("rate", rate, "jobs/s", few)
	return nil
}

// drained is the cost of running a backlog.
type drained struct {
	jobs   int // jobs that have started
	took   float64
	cost   usage // of the scheduler and its server
	allocs uint64
	note   string
}

func (d drained) rate() float64 { return float64(d.jobs) / d.took }

// drainBy lets a fresh process run a backlog: from the command to work until every end is recorded.
func (m *measurement) drainBy(ctx context.Context, c *child, jobs int) (d drained, err error) {
	before, err := c.ask(ctx, peer.Command{Do: "count", Allocs: true}, answering)
	if err != nil {
		return d, err
	}
	own, server := m.spent(c)
	begin := time.Now()
	if err := m.work(ctx, c); err != nil {
		return d, err
	}
	a, err := c.ask(ctx, peer.Command{Do: "await", Jobs: jobs, Seconds: patience.Seconds()}, 2*patience)
	if err != nil {
		return d, err
	}
	ownAfter, serverAfter := m.spent(c)
	d = drained{
		jobs: a.Jobs, took: seconds(begin, time.UnixMicro(a.At)),
		cost: ownAfter.plus(serverAfter).minus(own.plus(server)),
	}
	if a.Over {
		d.note = fmt.Sprintf("stopped after %.0f s", patience.Seconds())
	}
	switch {
	case a.Jobs == 0:
		return d, fmt.Errorf("no job had started after %s", patience)
	case !a.Over && a.Jobs != jobs:
		d.note = fmt.Sprintf("%d starts of %d jobs", a.Jobs, jobs)
		d.jobs = jobs
	}
	after, err := c.ask(ctx, peer.Command{Do: "count", Allocs: true}, answering)
	if after.Allocs != 0 {
		d.allocs = after.Allocs - before.Allocs
	}
	return d, err
}

// drain: a backlog of due jobs, until each has run and its end is recorded; and the cost of a job.
func drain(ctx context.Context, m *measurement) error {
	jobs, few, err := m.affordable(ctx, m.count(200_000))
	if err != nil {
		return err
	}
	if err := m.fill(ctx, jobs, peer.Job{}); err != nil {
		return err
	}
	c, err := m.start(ctx)
	if err != nil {
		return err
	}
	d, err := m.drainBy(ctx, c, jobs)
	if err != nil {
		return err
	}
	n, note := float64(d.jobs), notes(d.note, few)
	m.figure("rate", d.rate(), "jobs/s", note)
	m.figure("cpu_per_job", float64(d.cost.cpu.Microseconds())/n, "us", note)
	m.figure("bytes_per_job", float64(d.cost.written)/n, "bytes", note)
	if d.allocs != 0 {
		m.figure("allocs_per_job", float64(d.allocs)/n, "allocations", note)
	}
	return nil
}

// nodesDrain: several processes run the same backlog at once. All of them have started when the clock starts.
func nodesDrain(ctx context.Context, m *measurement) error {
	jobs, few, err := m.affordable(ctx, m.count(200_000))
	if err != nil {
		return err
	}
	if err := m.fill(ctx, jobs, peer.Job{}); err != nil {
		return err
	}
	var list []*child
	for range m.step.size {
		c, err := m.start(ctx)
		if err != nil {
			return err
		}
		list = append(list, c)
	}
	begin := time.Now()
	if err := m.workAll(ctx, list); err != nil {
		return err
	}
	ran, at, over, err := counted(ctx, list, jobs, patience)
	if err != nil {
		return err
	}
	note := fmt.Sprintf("stopped after %.0f s", patience.Seconds())
	if !over { // not earlier: the question would disturb the measurement
		left := patience - time.Since(begin)
		a, err := list[0].ask(
			ctx, peer.Command{Do: "await", Store: true, Seconds: max(left.Seconds(), 1)}, 2*patience,
		)
		if err != nil {
			return err
		}
		at = time.UnixMicro(a.At)
		if !a.Over {
			note = ""
		}
	}
	if ran == 0 {
		return fmt.Errorf("no job had started after %s", patience)
	}
	if ran > jobs {
		note = notes(note, fmt.Sprintf("%d starts of %d jobs", ran, jobs))
	}
	m.figure("rate", float64(min(ran, jobs))/seconds(begin, at), "jobs/s", notes(note, few))
	return nil
}

// workAll tells all processes to begin at once.
func (m *measurement) workAll(ctx context.Context, list []*child) error {
	errs := make(chan error, len(list))
	for _, c := range list {
		go func() { errs <- m.work(ctx, c) }()
	}
	var err error
	for range list {
		if e := <-errs; e != nil {
			err = e
		}
	}
	return err
}

// backlog: the cost of a job must not depend on how many others wait. It measures the ends that are recorded
// within a minute, or all of them.
func backlog(ctx context.Context, m *measurement) error {
	jobs := m.jobs()
	if err := m.fill(ctx, jobs, peer.Job{}); err != nil {
		return err
	}
	c, err := m.start(ctx)
	if err != nil {
		return err
	}
	begin := time.Now()
	if err := m.work(ctx, c); err != nil {
		return err
	}
	_, first, over, err := counted(ctx, []*child{c}, 1, patience)
	if err == nil && over {
		err = fmt.Errorf("no job had started after %s", patience)
	}
	if err != nil {
		return err
	}
	a, err := c.ask(ctx, peer.Command{Do: "count", Ends: true}, answering)
	if err != nil {
		return err
	}
	early, since := a.Jobs, time.Now() // a number of ends, like ran below
	// A minute's work, or all of it: long enough that the jobs in flight when the clock stops do not matter.
	want := min(jobs, m.count(3_000_000))
	ran, at, over, err := count(
		ctx, []*child{c}, peer.Command{Do: "count", Ends: true}, want, patience-time.Since(begin),
	)
	if err != nil {
		return err
	}
	note := ""
	if over {
		note = fmt.Sprintf("stopped after %.0f s", patience.Seconds())
	}
	m.figure("rate", float64(ran)/seconds(begin, at), "jobs/s", note)
	m.figure("first", first.Sub(begin).Seconds(), "s", "")
	// Without the time until the first start, which weighs more on a small backlog.
	if ran > early {
		m.figure("rate_warm", float64(ran-early)/seconds(since, at), "jobs/s", note)
	}
	return nil
}

// history: nor must it depend on how many jobs have ended before.
func history(ctx context.Context, m *measurement) error {
	jobs, few, err := m.affordable(ctx, m.count(100_000))
	if err != nil {
		return err
	}
	c, err := m.start(ctx)
	if err != nil {
		return err
	}
	if err := m.stuff(ctx, c, m.jobs(), true); err != nil {
		return err
	}
	if err := m.fillBy(ctx, c, jobs, peer.Job{}); err != nil {
		return err
	}
	if c, err = m.restart(ctx, c); err != nil {
		return err
	}
	d, err := m.drainBy(ctx, c, jobs)
	if err != nil {
		return err
	}
	m.figure("rate", d.rate(), "jobs/s", notes(d.note, few))
	if d.note != "" && d.jobs < jobs {
		return nil // it is not idle: a job submitted now would wait behind the rest
	}
	return m.pickupBy(ctx, c)
}
