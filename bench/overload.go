package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/client"
	"github.com/carillon-run/carillon/node"
)

const (
	overloadFor    = 5 * time.Minute
	overloadTimes  = 10
	overloadBatch  = 100
	overloadRounds = 40
	overloadTurn   = 5 * time.Second
)

// overloadScenario: another process submits over HTTP ten times as many jobs as can be done, for five
// minutes. The jobs are for now, and run in this process. The callers have a processor of their own, for they
// stand for other machines. It sees how long it takes until a single job is as quick as before.
//
// Then it compares what is done under overload with the maximum. A shared machine is faster in one minute and
// slower in the next, by more than the two differ, so overload and maximum take turns, each in a store of its
// own, and the figure is the median of the rounds.
func overloadScenario(ctx context.Context, b *bench) error {
	most, err := b.maximum(ctx)
	if err != nil {
		return err
	}
	b.say("the maximum is %.0f jobs/s", most.rate)
	var p probe
	err = b.offered(ctx, &p, func(h *house, source *child) (err error) {
		if p.client, err = h.caller(); err != nil {
			return err
		}
		long := time.Duration(b.scale * float64(overloadFor))
		return b.overload(ctx, overloaded{h, source, &p, most.rate, long})
	})
	if err != nil {
		return err
	}
	return b.overloadInTurns(ctx, most)
}

// overloadInTurns measures the maximum, and the goodput under ten times as much. The order of the two changes
// from round to round: a machine that gets slower must not always be unkind to the same one.
func (b *bench) overloadInTurns(ctx context.Context, most done) error {
	var maxima, goodputs, ratios, costs []float64
	for round := range max(3, int(b.scale*overloadRounds)) {
		var under done
		for i := range 2 {
			var err error
			if i == round%2 {
				most, err = b.maximum(ctx)
			} else {
				under, err = b.tenTimes(ctx, most.rate)
			}
			if err != nil {
				return err
			}
		}
		maxima, goodputs = append(maxima, most.rate), append(goodputs, under.rate)
		ratios, costs = append(ratios, 100*under.rate/most.rate), append(costs, 100*most.cpu/under.cpu)
		b.say("round %d: maximum %.0f, goodput %.0f jobs/s, %.1f %%; by processor time %.1f %%", round+1,
			most.rate, under.rate, ratios[round], costs[round])
	}
	for _, figures := range [][]float64{maxima, goodputs, ratios, costs} {
		slices.Sort(figures)
	}
	b.figure("overload_max", median(maxima), "jobs/s")
	b.figure("overload_turn_goodput", median(goodputs), "jobs/s")
	b.figure("overload_goodput_ratio", median(ratios), "%")
	b.figure("overload_goodput_ratio_low", ratios[len(ratios)/4], "%")
	b.figure("overload_goodput_ratio_high", ratios[len(ratios)*3/4], "%")
	b.figure("overload_cpu_ratio", median(costs), "%")
	return nil
}

// tenfold offers ten times a rate.
func tenfold(rate float64, long time.Duration) offering {
	return offering{Jobs: overloadBatch, Callers: 1000, Rate: overloadTimes * rate, For: long}
}

// offered opens a house, and a process that offers jobs to it on a processor of its own. p, if not nil, is
// told of each start.
func (b *bench) offered(
	ctx context.Context, p *probe, measure func(h *house, source *child) error,
) (err error) {
	var started func(*carillon.Run)
	if p != nil {
		started = p.begun
	}
	at, h, err := b.start(ctx, func(at place) node.Config {
		cfg := at.config(b.slots)
		cfg.Listen = loopback
		return cfg
	}, started)
	if err != nil {
		return err
	}
	var source *child
	together, err := apart(func() (err error) {
		source, err = b.source(h)
		return err
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, together()) }()
	if err := measure(h, source); err != nil {
		return err
	}
	err = errors.Join(source.end(), b.leave(ctx, at, h))
	debug.FreeOSMemory() // the next house begins with little
	return err
}

// overloaded is a house, and how it is overloaded.
type overloaded struct {
	house  *house
	source *child
	probe  *probe
	rate   float64 // the maximum, jobs a second
	long   time.Duration
}

// overload offers ten times the rate.
func (b *bench) overload(ctx context.Context, o overloaded) error {
	usual, err := o.probe.usual(ctx)
	if err != nil {
		return err
	}
	b.say("usual: %s", usual)
	memory := watchMemory()
	got, done, err := b.offer(o.house, o.source, tenfold(o.rate, o.long))
	if err != nil {
		return err
	}
	submits, starts, err := o.probe.back(ctx, usual)
	if err != nil {
		return err
	}
	rss := memory()
	if got.Other != "" {
		return fmt.Errorf("the server answered %q", got.Other)
	}
	sent := float64(got.Sent*overloadBatch) / o.long.Seconds()
	b.say("%d requests of %d jobs were sent: %d accepted, %d refused; in the process: %d runs",
		got.Sent, overloadBatch, got.Accepted, got.Refused, o.house.ran())
	b.figure("overload_offered", sent/o.rate, "x_the_maximum")
	b.figure("overload_goodput", done.rate, "jobs/s")
	b.figure("overload_accepted", float64(got.Accepted*overloadBatch)/o.long.Seconds(), "jobs/s")
	b.figure("overload_refused", 100*float64(got.Refused)/float64(got.Sent), "%_of_requests")
	b.figure("overload_timeouts", float64(got.Silent), "requests")
	b.figure("overload_accepted_p99", got.P99.Seconds(), "s")
	b.figure("overload_rss_peak", rss, "MB")
	b.figure("overload_submits_usual_after", submits.Seconds(), "s")
	b.figure("overload_starts_usual_after", starts.Seconds(), "s")
	return nil
}

// done is what a node did for a while.
type done struct {
	rate float64 // jobs begun in a second
	cpu  float64 // processor time of the node for each of them, in seconds
}

// maximum is what is done if 16 callers send the next batch when one is answered.
func (b *bench) maximum(ctx context.Context) (most done, err error) {
	err = b.offered(ctx, nil, func(h *house, source *child) (err error) {
		var got offered
		got, most, err = b.offer(h, source, offering{Jobs: overloadBatch, Callers: 16, For: overloadTurn})
		if err == nil && (got.Silent > 0 || got.Refused > 0 || got.Other != "") {
			err = fmt.Errorf("not every job was taken when the maximum was measured: %+v", got)
		}
		return err
	})
	return most, err
}

// tenTimes is what is done if ten times a rate is offered.
func (b *bench) tenTimes(ctx context.Context, rate float64) (under done, err error) {
	err = b.offered(ctx, nil, func(h *house, source *child) (err error) {
		_, under, err = b.offer(h, source, tenfold(rate, overloadTurn))
		return err
	})
	return under, err
}

// source starts the process that offers jobs to the house.
func (b *bench) source(h *house) (*child, error) {
	c, err := b.spawn("offer")
	if err != nil {
		return nil, err
	}
	token, err := os.ReadFile(h.node.TokenFile())
	if err == nil {
		err = c.tell(orders{Server: h.node.URL(), Token: strings.TrimSpace(string(token))})
	}
	return c, err
}

// offer lets the source offer jobs, and returns what became of them and what the node did meanwhile.
func (b *bench) offer(h *house, source *child, what offering) (got offered, did done, err error) {
	source.emptied = make(chan struct{})
	ran, begin, cpu := h.ran(), time.Now(), cpuTime()
	ended := make(chan struct{})
	go b.progress("begun", 0, func() int { return h.ran() - ran }, ended)
	defer close(ended)
	if err := source.tell(what); err != nil {
		return got, did, err
	}
	select {
	case <-time.After(what.For):
	case <-source.ended:
		return got, did, errChildEnded
	}
	jobs := float64(h.ran() - ran)
	did = done{jobs / time.Since(begin).Seconds(), (cpuTime() - cpu).Seconds() / jobs}
	select {
	case <-source.emptied:
	case <-source.ended:
		return got, did, errChildEnded
	}
	return got, did, json.Unmarshal([]byte(source.said), &got)
}

// watchMemory returns a function that says how many megabytes this process held at most since.
func watchMemory() (peak func() float64) {
	stop, most := make(chan struct{}), make(chan float64)
	go func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		mb := 0.0
		for {
			select {
			case <-tick.C:
				mb = max(mb, residentMB())
			case <-stop:
				most <- mb
				return
			}
		}
	}()
	return func() float64 { close(stop); return <-most }
}

// probe submits single jobs over HTTP and sees when they start.
type probe struct {
	client *client.Client

	out   atomic.Bool // a probe is on its way
	mu    sync.Mutex
	job   carillon.JobID               // the probe; 0: its submit is not answered yet
	early map[carillon.JobID]time.Time // what started before that
	start chan time.Time
}

// begun is called at the start of every run.
func (p *probe) begun(run *carillon.Run) {
	if !p.out.Load() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch p.job {
	case 0:
		p.early[run.ID.Job] = time.Now()
	case run.ID.Job:
		p.start <- time.Now()
	}
}

// submitted says which job is the probe.
func (p *probe) submitted(job carillon.JobID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.job = job
	if at, ok := p.early[job]; ok {
		p.start <- at
	}
	p.early = nil
}

// latency is how long the submit of a job took, and how long after it was called the job started.
type latency struct{ submit, start time.Duration }

func (l latency) String() string { return fmt.Sprintf("submit %s, start %s", l.submit, l.start) }

func (p *probe) once(ctx context.Context) (l latency, err error) {
	p.mu.Lock()
	p.job, p.early, p.start = 0, map[carillon.JobID]time.Time{}, make(chan time.Time, 1)
	p.mu.Unlock()
	p.out.Store(true)
	defer p.out.Store(false)
	begin := time.Now()
	job, err := p.client.Submit(ctx, definition(carillon.Schedule{}))
	for full := (*client.Problem)(nil); errors.As(err, &full) && full.RetryAfter > 0; {
		time.Sleep(full.RetryAfter)
		job, err = p.client.Submit(ctx, definition(carillon.Schedule{}))
	}
	if err != nil {
		return l, err
	}
	l.submit = time.Since(begin)
	p.submitted(job.ID)
	select {
	case at := <-p.start:
		l.start = at.Sub(begin)
		return l, nil
	case <-ctx.Done():
		return l, ctx.Err()
	}
}

// usual is three times the 99th percentile of both latencies on an idle system, at least 50 ms.
func (p *probe) usual(ctx context.Context) (latency, error) {
	var submits, starts []time.Duration
	for range 200 {
		l, err := p.once(ctx)
		if err != nil {
			return latency{}, err
		}
		submits, starts = append(submits, l.submit), append(starts, l.start)
		time.Sleep(5 * time.Millisecond)
	}
	bound := func(d []time.Duration) time.Duration { return max(3*quantile(d, 0.99), 50*time.Millisecond) }
	return latency{bound(submits), bound(starts)}, nil
}

// back says after how long submits, and starts, were as quick as usual ten times in a row.
func (p *probe) back(ctx context.Context, usual latency) (submits, starts time.Duration, err error) {
	begin := time.Now()
	submitsAt, startsAt := begin, begin // since when they have been usual
	for quick := 0; quick < 10; quick++ {
		called := time.Now()
		l, err := p.once(ctx)
		if err != nil {
			return 0, 0, err
		}
		if l.submit > usual.submit {
			submitsAt, quick = called.Add(l.submit), 0 // not when its job started, which can be much later
		}
		if l.start > usual.start {
			startsAt, quick = time.Now(), 0
		}
		time.Sleep(20 * time.Millisecond)
	}
	return submitsAt.Sub(begin), startsAt.Sub(begin), nil
}

// quantile sorts the durations; 0 if there are none.
func quantile(d []time.Duration, q float64) time.Duration {
	if len(d) == 0 {
		return 0
	}
	slices.Sort(d)
	return d[min(int(q*float64(len(d))), len(d)-1)]
}
