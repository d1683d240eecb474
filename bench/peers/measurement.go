package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/carillon-run/carillon/bench/peers/peer"
	"github.com/carillon-run/carillon/bench/peers/result"
)

// step is a scenario, or one of its sizes.
type step struct {
	scenario string
	size     int  // as in result.Figure; multiplied by the scale where it counts jobs
	big      bool // large, or takes long: measured for --rounds-big rounds
	run      func(ctx context.Context, m *measurement) error
	fits     func(p scheduler) (why string)                       // nil: it fits all
	alone    func(ctx context.Context, b *bench, round int) error // instead of run: not about a scheduler
}

func (s step) unfit(p scheduler) string {
	if s.fits == nil {
		return ""
	}
	return s.fits(p)
}

// about begins a reason that concerns only one size.
func (s step) about() string {
	if s.size == 0 {
		return ""
	}
	return fmt.Sprintf("%d: ", s.size)
}

// Time limits for a scheduler. After a limit, a scheduler is judged by what it has done so far.
const (
	patience    = 60 * time.Second  // a measured period
	patienceBig = 180 * time.Second // a million at one instant
	filling     = 120 * time.Second // submitting
	fillingBig  = 300 * time.Second // submitting more than a million jobs
	answering   = 60 * time.Second  // anything else
)

func fillLimit(jobs int) time.Duration {
	if jobs > 1_000_000 {
		return fillingBig
	}
	return filling
}

// measurement is one scheduler in one step in one round.
type measurement struct {
	*bench
	peer     scheduler
	step     step
	round    int
	at       place
	prepared bool
	children []*child
}

// jobs is the size of the step, for steps whose size is a number of jobs.
func (m *measurement) jobs() int { return m.count(m.step.size) }

// start starts a process of the scheduler; the first one prepares the store.
func (m *measurement) start(ctx context.Context) (*child, error) {
	c, err := m.spawn(ctx, m.peer, m.at)
	if err != nil {
		return nil, err
	}
	m.children = append(m.children, c)
	if !m.prepared {
		if _, err := c.ask(ctx, peer.Command{Do: "prepare"}, 5*time.Minute); err != nil {
			return nil, err
		}
		m.prepared = true
	}
	return c, nil
}

// endAll ends all processes that are still there.
func (m *measurement) endAll() {
	for _, c := range m.children {
		c.in.Close()
	}
	for _, c := range m.children {
		c.end()
	}
	m.children = nil
}

// work tells a child to begin running jobs.
func (m *measurement) work(ctx context.Context, c *child) error {
	_, err := c.ask(ctx, peer.Command{Do: "work"}, answering)
	return err
}

// fill submits jobs from a process that then ends, and lets the server come to rest.
func (m *measurement) fill(ctx context.Context, jobs int, job peer.Job) error {
	c, err := m.start(ctx)
	if err != nil {
		return err
	}
	if err := m.fillBy(ctx, c, jobs, job); err != nil {
		return err
	}
	c.end()
	return m.settle(ctx, m.at)
}

func (m *measurement) fillBy(ctx context.Context, c *child, jobs int, job peer.Job) error {
	if jobs == 0 {
		return nil
	}
	if rate := m.bulk[m.peer.name]; rate > 0 && float64(jobs)/rate > 2*fillLimit(jobs).Seconds() {
		return fmt.Errorf(
			"handing in %d jobs would take about %.0f s, which is more than %s", jobs, float64(jobs)/rate,
			fillLimit(jobs),
		)
	}
	m.say("handing in %d jobs", jobs)
	_, err := c.ask(ctx, peer.Command{Do: "fill", Jobs: jobs, Job: job}, fillLimit(jobs))
	var over late
	if errors.As(err, &over) {
		return fmt.Errorf("handing in %d jobs took more than %s", jobs, over.limit)
	}
	return err
}

// affordable is how many of the jobs the scheduler accepts within a minute; if that is not all of them, the
// note says so.
func (m *measurement) affordable(ctx context.Context, jobs int) (n int, note string, err error) {
	rate := m.bulk[m.peer.name]
	if rate == 0 {
		if rate, err = m.probe(ctx); err != nil {
			return 0, "", err
		}
		m.bulk[m.peer.name] = rate
	}
	if n = max(int(rate*patience.Seconds())/1000*1000, 1000); n >= jobs {
		return jobs, "", nil
	}
	return n, fmt.Sprintf("%d jobs: handing in %d takes too long", n, jobs), nil
}

// probe measures roughly, in a fresh place, how quickly a scheduler accepts jobs.
func (m *measurement) probe(ctx context.Context) (rate float64, err error) {
	const jobs = 1000
	p := &measurement{bench: m.bench, peer: m.peer, step: m.step}
	if p.at, err = m.fresh(ctx, m.peer); err != nil {
		return 0, err
	}
	c, err := p.start(ctx)
	if err == nil {
		begin := time.Now()
		err = p.fillBy(ctx, c, jobs, peer.Job{Due: tomorrow()})
		rate = jobs / seconds(begin, time.Now())
	}
	p.endAll()
	if err = errors.Join(err, m.discard(p.at)); err != nil || m.at.engine != "redis" {
		return rate, err
	}
	m.prepared = false // there is only one Redis for all places
	return rate, nil
}

// notes joins the remarks about a figure.
func notes(list ...string) string {
	return strings.Join(slices.DeleteFunc(list, func(s string) bool { return s == "" }), "; ")
}

// stuff puts jobs into the store by the quickest means.
func (m *measurement) stuff(ctx context.Context, c *child, jobs int, ended bool) error {
	if jobs == 0 {
		return nil
	}
	m.say("putting %d jobs into the store", jobs)
	_, err := c.ask(ctx, peer.Command{Do: "stuff", Jobs: jobs, Ended: ended}, fillingBig)
	var over late
	var cannot peer.Cannot
	switch {
	case errors.As(err, &over):
		return fmt.Errorf("putting %d jobs into the store took more than %s", jobs, over.limit)
	case errors.As(err, &cannot) && !ended:
		return m.fillBy(ctx, c, jobs, peer.Job{Due: tomorrow()})
	}
	return err
}

func tomorrow() int64 { return time.Now().Add(24 * time.Hour).Truncate(time.Second).UnixMicro() }

// figure records a result of this step.
func (m *measurement) figure(name string, value float64, unit, note string) {
	f := result.Figure{
		Scenario: m.step.scenario, Peer: m.peer.name, Size: m.size(), Name: name, Unit: unit, Round: m.round,
		Value: value, Note: note,
	}
	m.note(f)
}

// size is the size in a figure: the number of nodes, or the number of jobs after scaling.
func (m *measurement) size() int {
	if m.step.scenario == "nodes" {
		return m.step.size
	}
	return m.jobs()
}

func (b *bench) note(f result.Figure) {
	b.result.Figures = append(b.result.Figures, f)
	note := ""
	if f.Note != "" {
		note = " (" + f.Note + ")"
	}
	size := ""
	if f.Size != 0 {
		size = fmt.Sprintf(" at %d", f.Size)
	}
	b.say("%s%s: %s %s%s", f.Name, size, number(f.Value), f.Unit, note)
}

// times records percentiles.
func (m *measurement) times(t peer.Times, note string) {
	if t.N == 0 {
		return
	}
	m.figure("p50", t.P50, "ms", note)
	m.figure("p99", t.P99, "ms", note)
	m.figure("max", t.Max, "ms", note)
}

// spent is what this scheduler and its server have used so far.
func (m *measurement) spent(c *child) (own, server usage) {
	return usageOf(c.cmd.Process.Pid), usageOf(m.at.server)
}

func seconds(from, to time.Time) float64 { return max(to.Sub(from).Seconds(), 1e-6) }

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// restart ends a process and starts another one in its place, as in a deployment.
func (m *measurement) restart(ctx context.Context, c *child) (*child, error) {
	c.end()
	if err := m.settle(ctx, m.at); err != nil {
		return nil, err
	}
	return m.start(ctx)
}

// counted waits until these processes together have started that many jobs, and returns when that was; over:
// the limit came first.
func counted(
	ctx context.Context, children []*child, jobs int, limit time.Duration,
) (ran int, at time.Time, over bool, err error) {
	return count(ctx, children, peer.Command{Do: "count"}, jobs, limit)
}

func count(
	ctx context.Context, children []*child, ask peer.Command, jobs int, limit time.Duration,
) (ran int, at time.Time, over bool, err error) {
	for begin := time.Now(); ; {
		ran = 0
		for _, c := range children {
			a, err := c.ask(ctx, ask, answering)
			if err != nil {
				return ran, at, false, err
			}
			ran += a.Jobs
		}
		at = time.Now()
		if ran >= jobs || at.Sub(begin) > limit {
			return ran, at, ran < jobs, nil
		}
		// A pause, because every question costs the processes that work.
		if err := pause(ctx, time.Duration(len(children))*5*time.Millisecond); err != nil {
			return ran, at, false, err
		}
	}
}
