package main

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/client"
)

// gatesBars are the same for every store.
var gatesBars = []bar{
	{figure: "gate_closed_after", limit: 1, atMost: true},
	{figure: "gate_closed_more", limit: 0.3, atMost: true},
	{figure: "gate_closed_growth", limit: 5, atMost: true},
	{figure: "gate_open_rate", limit: 4500},
	{figure: "gate_open_rate_most", limit: 5500, atMost: true},
	{figure: "gate_open_stall", limit: 0.5, atMost: true},
}

const (
	gateRate = 5000 // runs a second that leave the gate
	gateIdle = 30 * time.Second
)

// gatesScenario: a million due runs are worked off when a gate closes over all of them. How long do runs
// still start, what does the closed gate cost once all are held, beside the same nodes without any runs, and
// at which rate do they leave when it opens?
func gatesScenario(ctx context.Context, b *bench) error {
	nodes := 1
	if b.kind.shared {
		nodes = 3
	}
	n := b.count(1_000_000)
	r := newRival(func(*carillon.Run) bool { return false }, nil)
	if err := b.idleNodes(ctx, nodes, r); err != nil {
		return err
	}
	at, houses, err := b.behindBacklog(ctx, n, flood{nodes: nodes}, r, func(d *carillon.Definition) {
		d.Type = "bench"
	})
	if err != nil {
		return err
	}
	caller, err := houses[0].caller()
	if err != nil {
		return err
	}
	gate, err := caller.CloseGate(ctx, client.GateRequest{
		Match: carillon.GateMatch{Type: "bench"}, Mode: carillon.GateHold, Reason: "bench",
	})
	if err != nil {
		return err
	}
	closed := time.Now()
	last, err := lastStart(ctx, r, 5*time.Second)
	if err != nil {
		return err
	}
	b.figure("gate_closed_after", max(last.Sub(closed), 0).Seconds(), "s")
	began := int(r.others.Load())

	// What workers pull is held, until nothing is left.
	for held := 0; held < n-began; time.Sleep(time.Second) {
		now, err := caller.Gate(ctx, gate.ID)
		if err != nil {
			return err
		}
		if now.Held != nil {
			held = *now.Held
		}
	}
	b.figure("gate_held_after", time.Since(closed).Seconds(), "s")
	time.Sleep(5 * time.Second)
	debug.FreeOSMemory()
	memory := residentMB()
	b.atRest("gate_closed")
	debug.FreeOSMemory() // garbage is no growth
	b.figure("gate_closed_rss", memory, "MB")
	b.figure("gate_closed_growth", residentMB()-memory, "MB")
	more := b.known("gate_closed_cpu").value - b.known("gate_idle_cpu").value
	b.figure("gate_closed_more", more, "%_of_a_core")

	rate := fmt.Sprint(gateRate, "/s")
	if _, err := caller.OpenGate(ctx, gate.ID, client.OpenRequest{Rate: rate}); err != nil {
		return err
	}
	if err := until(ctx, func() bool { return int(r.others.Load()) > began }); err != nil {
		return err
	}
	least, most, stall := rateOf(r, 20*time.Second)
	b.figure("gate_open_rate", least, "runs/s")
	b.figure("gate_open_rate_most", most, "runs/s")
	b.figure("gate_open_stall", stall.Seconds(), "s")
	return b.leaveAll(ctx, at, houses)
}

// idleNodes measures nodes that have no runs.
func (b *bench) idleNodes(ctx context.Context, nodes int, r *rival) error {
	at, houses, err := b.behindBacklog(ctx, 0, flood{nodes: nodes}, r, nil)
	if err != nil {
		return err
	}
	time.Sleep(5 * time.Second)
	b.atRest("gate_idle")
	return b.leaveAll(ctx, at, houses)
}

// atRest measures the processor time of this process and of a database server beside it.
func (b *bench) atRest(name string) {
	from, of, since := cpuTime(), cpuOfChildren(), time.Now()
	time.Sleep(gateIdle)
	share := func(used time.Duration) float64 { return 100 * used.Seconds() / time.Since(since).Seconds() }
	b.figure(name+"_cpu", share(cpuTime()-from), "%_of_a_core")
	if b.kind.shared {
		b.figure(name+"_server_cpu", share(cpuOfChildren()-of), "%_of_a_core")
	}
}

// lastStart waits until no run has started for a time, and says when the last one did.
func lastStart(ctx context.Context, r *rival, quiet time.Duration) (last time.Time, err error) {
	last = time.Now()
	seen := r.others.Load()
	return last, until(ctx, func() bool {
		if now := r.others.Load(); now != seen {
			seen, last = now, time.Now()
		}
		return time.Since(last) > quiet
	})
}

// rateOf measures starts for a time: the lowest and the highest rate of five seconds, and the longest time
// without a start.
func rateOf(r *rival, long time.Duration) (least, most float64, stall time.Duration) {
	const window = 5 * time.Second
	begin, seen := time.Now(), r.others.Load()
	last, from, at := begin, seen, begin
	for time.Since(begin) < long {
		time.Sleep(time.Millisecond)
		now := time.Now()
		if n := r.others.Load(); n != seen {
			seen, last = n, now
		}
		stall = max(stall, now.Sub(last))
		if now.Sub(at) >= window {
			rate := float64(seen-from) / now.Sub(at).Seconds()
			if least == 0 || rate < least {
				least = rate
			}
			most, from, at = max(most, rate), seen, now
		}
	}
	return least, most, stall
}
