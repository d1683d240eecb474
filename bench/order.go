package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/carillon-run/carillon"
)

const orderSlots = 64 // of all nodes together

// pace is how quickly things happen in a flood.
type pace struct {
	takes  time.Duration // a run of the flood
	probes int           // single jobs of the one that must not wait
	every  time.Duration // from one of them to the next
}

var (
	orderPace = pace{4 * time.Millisecond, 200, 100 * time.Millisecond}
	// Where slots are kept, runs of the flood take longer, and so it lasts for more probes: their p99 is
	// compared with that of another measurement.
	keptPace = pace{time.Second, 1000, 40 * time.Millisecond}
)

// about is between half and one and a half of a time. Runs that all took the same would end, and the next
// ones begin, in one burst after the other, which none of the probes would meet, or all of them.
func about(d time.Duration) time.Duration { return d/2 + rand.N(d) }

// orderBars are the same for every store.
var orderBars = []bar{
	{figure: "flood_small_p99", limit: 50, atMost: true},
	{figure: "flood_of_3_small_p99", limit: 50, atMost: true},
	{figure: "limited_small_p99", limit: 50, atMost: true},
	{figure: "kept_small_ratio", limit: 2, atMost: true},
	{figure: "kept_of_3_small_ratio", limit: 2, atMost: true},
	{figure: "urgent_p99", limit: 100, atMost: true},
	{figure: "urgent_low_places", limit: 8},
	{figure: "shares_rss", limit: 300, atMost: true},
}

// orderScenario: who goes first. One share floods a queue with a million jobs while another one submits
// single jobs; single jobs of priority 9 come behind a million of priority 0 that are two minutes old; a
// hundred thousand shares wait.
func orderScenario(ctx context.Context, b *bench) error {
	if err := b.manyShares(ctx); err != nil {
		return err
	}
	floods := []flood{
		{name: "flood", nodes: 1, pace: orderPace},
		{name: "limited", nodes: 1, pace: orderPace, limit: orderSlots / 2},
		{name: "kept", nodes: 1, pace: keptPace, keep: 1},
	}
	if b.kind.shared {
		floods = append(floods,
			flood{name: "flood_of_3", nodes: 3, pace: orderPace},
			flood{name: "kept_of_3", nodes: 3, pace: keptPace, keep: 1})
	}
	for _, f := range floods {
		if err := b.flood(ctx, f); err != nil {
			return err
		}
	}
	return b.urgent(ctx)
}

// manyShares says how much memory a node takes in which runs of 100,000 shares wait.
func (b *bench) manyShares(ctx context.Context) error {
	n := b.count(100_000)
	at, h, err := b.house(ctx, noWorker, nil)
	if err != nil {
		return err
	}
	err = b.fillWith(ctx, h, n, func(i int) carillon.Definition {
		d := definition(carillon.Schedule{})
		d.FairBy = fmt.Sprint("customer-", i)
		return d
	})
	if err != nil {
		return err
	}
	debug.FreeOSMemory() // what the submits took
	b.figure("shares_rss", residentMB(), "MB")
	err = b.leave(ctx, at, h)
	debug.FreeOSMemory()
	return err
}

// rival is a share, or a priority, whose single jobs must not wait.
type rival struct {
	is     func(*carillon.Run) bool
	define func(*carillon.Definition)
	begun  chan time.Time
	pace   pace
	others atomic.Int64 // starts of other runs
}

func newRival(is func(*carillon.Run) bool, define func(*carillon.Definition)) *rival {
	return &rival{is: is, define: define, begun: make(chan time.Time, 1), pace: orderPace}
}

func (r *rival) started(run *carillon.Run) {
	if r.is(run) {
		r.begun <- time.Now()
		return
	}
	r.others.Add(1)
	time.Sleep(about(r.pace.takes))
}

// waits submits single jobs of the rival at one node, and says how long each waited for its start.
func (r *rival) waits(ctx context.Context, h *house) (waits []time.Duration, err error) {
	d := definition(carillon.Schedule{})
	r.define(&d)
	for range r.pace.probes {
		begin := time.Now()
		if _, err := h.node.Submit(ctx, d); err != nil {
			return nil, err
		}
		select {
		case at := <-r.begun:
			waits = append(waits, at.Sub(begin))
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		time.Sleep(about(r.pace.every))
	}
	return waits, nil
}

// flood is a share with a million jobs beside one that has one job at a time.
type flood struct {
	name  string
	nodes int
	pace  pace
	keep  int // slots of each node that are kept: see worker.Config
	limit int // how many of the million may run at once; 0: no limit
}

// flood measures the waits of the share that has one job at a time, alone and beside the other one.
func (b *bench) flood(ctx context.Context, f flood) error {
	r := newRival(
		func(run *carillon.Run) bool { return run.Share == "small" },
		func(d *carillon.Definition) { d.FairBy = "small" },
	)
	r.pace = f.pace
	n := b.count(1_000_000)
	var alone float64
	for _, backlog := range []int{0, n} {
		at, houses, err := b.behindBacklog(ctx, backlog, f, r, func(d *carillon.Definition) {
			d.FairBy = "large"
			if f.limit > 0 {
				d.Limits = []carillon.Limit{{Key: "large", Concurrency: f.limit}}
			}
		})
		if err != nil {
			return err
		}
		waits, err := r.waits(ctx, houses[0])
		if err != nil {
			return err
		}
		if left := backlog - int(r.others.Load()); backlog > 0 && left <= 0 {
			return fmt.Errorf("the backlog was over before the probes were")
		}
		if backlog == 0 {
			b.percentiles(f.name+"_alone", waits, time.Millisecond, "ms")
			alone = b.known(f.name + "_alone_p99").value
		} else {
			b.percentiles(f.name+"_small", waits, time.Millisecond, "ms")
			b.figure(f.name+"_small_ratio", b.known(f.name+"_small_p99").value/alone, "x")
		}
		if err := b.leaveAll(ctx, at, houses); err != nil {
			return err
		}
	}
	return nil
}

// urgent measures the waits of single jobs of priority 9 behind a million of priority 0, and which share of
// the places those of priority 0 get while very many of priority 9 wait.
func (b *bench) urgent(ctx context.Context) error {
	r := newRival(
		func(run *carillon.Run) bool { return run.Priority == 9 && run.Share == "" },
		func(d *carillon.Definition) { d.Priority = 9 },
	)
	old := carillon.Now().Add(-2 * time.Minute)
	backlog := b.count(1_000_000)
	at, houses, err := b.behindBacklog(ctx, backlog, flood{nodes: 1}, r, func(d *carillon.Definition) {
		d.Priority, d.Schedule = carillon.Zero, carillon.Schedule{At: old}
	})
	if err != nil {
		return err
	}
	waits, err := r.waits(ctx, houses[0])
	if err != nil {
		return err
	}
	b.percentiles("urgent", waits, time.Millisecond, "ms")
	high := b.count(200_000)
	err = b.fillWith(ctx, houses[0], high, func(int) carillon.Definition {
		d := definition(carillon.Schedule{})
		d.Priority, d.FairBy = 9, "many"
		return d
	})
	if err != nil {
		return err
	}
	low, all, err := placesOfLow(ctx, houses[0], high/4)
	if err != nil {
		return err
	}
	b.figure("urgent_low_places", 100*float64(low)/float64(all), "%")
	return b.leaveAll(ctx, at, houses)
}

// placesOfLow waits until so many runs have ended, and says how many of the latest were of priority 0.
func placesOfLow(ctx context.Context, h *house, n int) (low, all int, err error) {
	begin := h.ran()
	if err := until(ctx, func() bool { return h.ran() >= begin+n }); err != nil {
		return 0, 0, err
	}
	q := carillon.RunQuery{
		Namespace: carillon.DefaultNamespace, States: []carillon.State{carillon.StateSucceeded}, Limit: 1000,
	}
	for all < n/2 {
		page, err := h.node.Store().FindRuns(ctx, q)
		if err != nil {
			return 0, 0, err
		}
		for i := range page.Runs {
			if all++; page.Runs[i].Priority == 0 {
				low++
			}
		}
		if q.After = page.Next; q.After == "" {
			break
		}
	}
	return low, all, nil
}

// behindBacklog opens nodes on a place in which jobs wait already, and waits until some of them have begun.
func (b *bench) behindBacklog(
	ctx context.Context, backlog int, f flood, r *rival, define func(*carillon.Definition),
) (at place, houses []*house, err error) {
	if at, err = b.fresh(ctx); err != nil {
		return at, nil, err
	}
	keeper, err := open(at.config(noWorker), nil)
	if err != nil {
		return at, nil, err
	}
	err = b.fillWith(ctx, keeper, backlog, func(int) carillon.Definition {
		d := definition(carillon.Schedule{})
		define(&d)
		return d
	})
	if err != nil {
		return at, nil, err
	}
	if err := keeper.stop(); err != nil {
		return at, nil, err
	}
	r.others.Store(0)
	for i := range f.nodes {
		own := at
		own.data = filepath.Join(at.data, fmt.Sprint("node", i))
		if f.nodes == 1 {
			own.data = at.data
		}
		cfg := own.config(orderSlots / f.nodes)
		cfg.Listen, cfg.Keep = loopback, f.keep
		h, err := open(cfg, r.started)
		if err != nil {
			return at, nil, err
		}
		b.houses, houses = append(b.houses, h), append(houses, h)
	}
	time.Sleep(time.Second)
	return at, houses, until(ctx, func() bool { return int(r.others.Load()) >= min(backlog, 1000) })
}

func (b *bench) leaveAll(ctx context.Context, at place, houses []*house) error {
	for _, h := range houses {
		if err := h.stop(); err != nil {
			return err
		}
	}
	return b.discard(ctx, at)
}
