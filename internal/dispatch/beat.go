package dispatch

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/worker/protocol"
)

// beatTime bounds one write of sessions: better to try again than to wait past the end of every lease.
const beatTime = 2 * time.Second

// Beat implements protocol.Dispatcher. No listener on this node has heard of a request to stop whose commit
// was not answered, or that another node committed. So Beat reads the runs that the worker has held for more
// than a beat, and tells the worker which of them to stop.
func (d *Dispatcher) Beat(ctx context.Context, b carillon.Beat) (protocol.Orders, error) {
	worker, came, own := b.ID, time.Now(), b.Holds
	b.Holds = d.withClaims(worker, b.Holds)
	standing, err := d.prolong(ctx, b)
	if err != nil {
		return protocol.Orders{}, fmt.Errorf("prolong the session of %s: %w", worker, err)
	}
	orders := protocol.Orders{Nodes: d.cfg.Nodes()}
	switch standing {
	case carillon.StandingOver:
		d.forget(worker)
		return protocol.Orders{}, fmt.Errorf("%w: worker %s", carillon.ErrSessionOver, worker)
	// A later beat has said what the worker holds: acting on this one would take back runs that go on.
	case carillon.StandingOld:
		return orders, nil
	}
	if b.Stopping {
		d.stops(worker)
	}
	v := d.touch(worker)
	d.takeBack(v, b, came)
	long := d.long(v, own)
	if len(long) == 0 {
		return orders, nil
	}
	if orders.Stop, err = d.check(ctx, worker, long); err != nil && ctx.Err() == nil {
		// The next beat tries again.
		d.cfg.Logger.Error("read what workers hold", "error", err, "runs", len(long))
	}
	return orders, nil
}

// withClaims adds the runs that this node is just handing to the worker: however long that takes, no node
// must take them back meanwhile.
func (d *Dispatcher) withClaims(worker string, holds []carillon.Held) []carillon.Held {
	holds = d.reservations.appendHeld(slices.Clip(holds), worker)
	d.mu.Lock()
	defer d.mu.Unlock()
	for h := d.inflight.of[worker]; h != nil; h = h.after {
		if h.pending {
			holds = append(holds, h.run.Held())
		}
	}
	return holds
}

// maxChecked bounds how many runs a beat reads: a worker that holds more hears of a stop some beats later.
const maxChecked = 1000

// long are the attempts that a worker also listed with its last beat, or some of them if they are very
// many.
func (d *Dispatcher) long(v *session, holds []carillon.Held) (long []carillon.Held) {
	now := make(map[carillon.Held]bool, len(holds))
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, h := range holds {
		now[h] = true
	}
	for h := range v.holds { // in a different order each time
		if now[h] && len(long) < maxChecked {
			long = append(long, h)
		}
	}
	v.holds = now
	return long
}

// check says which attempts must stop, because a stop was requested or because they no longer hold their run.
func (d *Dispatcher) check(
	ctx context.Context, worker string, holds []carillon.Held,
) (stop []protocol.Order, err error) {
	ids := make([]carillon.RunID, len(holds))
	for i, h := range holds {
		ids[i] = h.Run
	}
	runs, err := d.cfg.Store.Runs(ctx, ids, false)
	if err != nil {
		return nil, err
	}
	found := make(map[carillon.RunID]*carillon.Run, len(runs))
	for i := range runs {
		found[runs[i].ID] = &runs[i]
	}
	for _, h := range holds {
		switch run := found[h.Run]; {
		case run == nil || !run.State.Held() || run.Held() != h || run.Worker != worker:
			stop = append(stop, protocol.Order{
				Held: h, Lost: true, Reason: "another attempt has the run now",
			})
		case run.Has(carillon.FlagStop):
			stop = append(stop, protocol.Order{Held: h, Reason: run.Reason})
		}
	}
	return stop, nil
}

// takeBack ends attempts in flight from this node that their worker does not list, although it would list
// them if the answer to its pull had reached it: it sent the beat at least Handover after that answer. The
// scheduler's watch loop finds those in flight from other nodes, and those that takeBack fails to end: this
// node no longer remembers them. A worker that is stopping begins nothing that it does not list, so there is
// nothing to wait for.
func (d *Dispatcher) takeBack(v *session, b carillon.Beat, came time.Time) {
	worker := b.ID
	var old []*inflight
	var lost []protocol.Report
	d.mu.Lock()
	sentAfter := v.sentAfter(b, came)
	for h := d.inflight.of[worker]; h != nil; h = h.after {
		if !h.pending && (b.Stopping || sentAfter.Sub(h.since) >= protocol.Handover ||
			came.Sub(h.since) >= protocol.UnknownTime) {
			old = append(old, h)
		}
	}
	if len(old) > 0 {
		listed := make(map[carillon.Held]bool, len(b.Holds))
		for _, h := range b.Holds {
			listed[h] = true
		}
		for _, h := range old {
			held := h.run.Held()
			if listed[held] {
				continue
			}
			d.inflight.drop(h)
			lost = append(lost, protocol.Report{Held: held, End: &carillon.Outcome{
				Kind: carillon.OutcomeLost, Reason: "its worker " + worker + " does not know the run",
			}})
		}
	}
	d.mu.Unlock()
	if len(lost) > 0 {
		go d.recordLost(worker, lost) // the worker waits for the answer to its beat
	}
}

// recordTime bounds how long a node tries to record that an attempt is lost.
const recordTime = 5 * time.Second

// recordLost ends attempts that their worker never heard of. The scheduler's watch loop takes back those that
// it fails to end.
func (d *Dispatcher) recordLost(worker string, lost []protocol.Report) {
	ctx, cancel := context.WithTimeout(context.Background(), recordTime)
	defer cancel()
	receipts, err := d.Report(ctx, worker, lost)
	if err != nil {
		d.cfg.Logger.Error("take back what a worker does not know of", "error", err, "runs", len(lost))
		return
	}
	taken := 0
	for _, receipt := range receipts {
		if receipt == protocol.ReceiptRecorded {
			taken++
		}
	}
	if taken > 0 {
		d.cfg.Logger.Info(
			"took back runs that their worker does not know of", "runs", taken, "worker", worker,
		)
	}
}

// stops notes that a worker pulls no more runs.
func (d *Dispatcher) stops(worker string) {
	v := d.touch(worker)
	d.mu.Lock()
	v.stopping = true
	d.mu.Unlock()
	d.reservations.end(worker)
}

// beats coalesces beats that come at the same time into one write.
type beats struct {
	mu      sync.Mutex
	waiting []beating
	busy    bool
}

type beating struct {
	beat   carillon.Beat
	answer chan answer
}

type answer struct {
	standing carillon.Standing
	err      error
}

func (d *Dispatcher) prolong(ctx context.Context, beat carillon.Beat) (carillon.Standing, error) {
	b := beating{beat, make(chan answer, 1)}
	d.beats.mu.Lock()
	d.beats.waiting = append(d.beats.waiting, b)
	if !d.beats.busy {
		d.beats.busy = true
		go d.writeBeats()
	}
	d.beats.mu.Unlock()
	select {
	case a := <-b.answer:
		return a.standing, a.err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// writeBeats writes until no beat waits.
func (d *Dispatcher) writeBeats() {
	for {
		d.beats.mu.Lock()
		batch := d.beats.waiting
		d.beats.waiting = nil
		d.beats.busy = len(batch) > 0
		d.beats.mu.Unlock()
		if len(batch) == 0 {
			return
		}
		all := make([]carillon.Beat, len(batch))
		for i := range batch {
			all[i] = batch[i].beat
		}
		ctx, cancel := context.WithTimeout(context.Background(), beatTime)
		standings, err := d.cfg.Coordinator.Beat(ctx, all)
		cancel()
		for i, b := range batch {
			a := answer{err: err}
			if err == nil {
				a.standing = standings[i]
			}
			b.answer <- a
		}
	}
}
