package worker

import (
	"context"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/executor"
)

const (
	tendEvery = 200 * time.Millisecond
	// briefly is how long a run goes on before the store is told that it runs: most have ended by then, and one more
	// write for each would cost as much as its claim.
	briefly = 100 * time.Millisecond
)

// tend extends the lease of what runs. When the worker's session is lost, or the process was frozen for longer than the
// lease, it lets go of everything. It waits for nothing else: a slow disk must not end healthy runs.
func (w *Worker) tend(ctx context.Context, stop context.CancelCauseFunc) {
	lost := w.lost
	tick := time.NewTicker(tendEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			w.extend()
		case <-lost:
			w.cfg.Logger.Error("the worker's session is lost: stopping its runs")
			w.mu.Lock()
			w.gone = true
			w.mu.Unlock()
			stop(errSessionLost)
			w.cancelAll(executor.ErrLeaseOver)
			lost = nil
		case <-ctx.Done():
			return
		}
	}
}

// record writes what was printed and what has begun.
func (w *Worker) record(ctx context.Context) {
	for sleep(ctx, tendEvery) {
		w.flushOutput()
		w.markBegun(ctx)
	}
}

// extend prolongs the lease. Over is over: commands were killed by their supervisors then, so the rest stops too.
func (w *Worker) extend() {
	now := executor.Boottime()
	if now > w.lease.Until() {
		w.cfg.Logger.Error("this process stood still for longer than its lease: stopping its runs", "lease", leaseTime)
		w.cancelAll(executor.ErrLeaseOver)
	}
	w.lease.Extend(now + leaseTime)
}

func (w *Worker) flushOutput() {
	for _, a := range w.all() {
		if a.out.pending() {
			a.out.flush(a)
		}
	}
}

// markBegun records the runs that have been going on for a moment. A run that ends while this is being written is read
// again by its finish.
func (w *Worker) markBegun(ctx context.Context) {
	now := carillon.Now()
	var changes []carillon.Change
	var begun []*attempt
	for _, a := range w.all() {
		a.mu.Lock()
		if !a.begun && !a.finishing && a.began != 0 && now.Sub(a.began) > briefly {
			changes = append(changes, carillon.Change{Runs: []carillon.Run{a.run.Begin(a.began)}})
			begun = append(begun, a)
		}
		a.mu.Unlock()
	}
	if len(changes) == 0 {
		return
	}
	lost, err := w.cfg.Ledger.Commit(ctx, changes)
	if err != nil {
		w.cfg.Logger.Error("record what runs", "error", err, "runs", len(changes))
		return
	}
	for i, a := range begun {
		if len(lost) > 0 && lost[0] == i {
			lost = lost[1:] // changed meanwhile: the next turn marks it
			continue
		}
		a.mu.Lock()
		a.begun = true
		a.mu.Unlock()
	}
}
