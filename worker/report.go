package worker

import (
	"context"
	"sync"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/await"
)

const (
	// reportLoops is more than one so that the worker goes on reporting ends while one batch waits to be
	// written.
	reportLoops = 4
	// maxReports bounds one report.
	maxReports = 2000
	// weight is about how many bytes a run without a payload takes, here and in a dispatcher in the same
	// process.
	weight = 1200
)

// ends are the results that have no receipt yet.
type ends struct {
	limit   int // of pending
	mu      sync.Mutex
	waiting []*attempt // each with its outcome
	pending int        // bytes of the ends that wait or are being reported
	ready   await.Signal
}

func (e *ends) add(a *attempt) {
	e.mu.Lock()
	e.waiting = append(e.waiting, a)
	e.pending += a.weight()
	e.mu.Unlock()
	e.ready.Set()
}

// take waits for results and takes some; it returns none when ctx has ended.
func (e *ends) take(ctx context.Context) []*attempt {
	for {
		e.mu.Lock()
		n := min(len(e.waiting), maxReports)
		batch := e.waiting[:n:n]
		e.waiting = e.waiting[n:]
		more := len(e.waiting) > 0
		if !more {
			e.waiting = nil
		}
		e.mu.Unlock()
		if more {
			e.ready.Set()
		}
		if n > 0 {
			return batch
		}
		select {
		case <-e.ready:
		case <-ctx.Done():
			return nil
		}
	}
}

func (e *ends) acknowledged(batch []*attempt) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, a := range batch {
		e.pending -= a.weight()
	}
}

// weight is about how many bytes an attempt that has ended holds in memory.
func (a *attempt) weight() int {
	n := weight + a.Job.Weight() + len(a.Checkpoint) + len(a.outcome.Reason)
	if out := a.outcome.Output; out != nil {
		n += len(out.Result)
	}
	for i := range a.rest {
		n += len(a.rest[i].Text)
	}
	return n
}

// caughtUp waits until the pending ends are within the limit.
func (e *ends) caughtUp(ctx context.Context) bool {
	for {
		e.mu.Lock()
		pending := e.pending
		e.mu.Unlock()
		if pending <= e.limit {
			return true
		}
		if !await.For(ctx, 5*time.Millisecond) {
			return false
		}
	}
}

// report sends results until each has its receipt: an outage never makes it give up a result.
func (w *Worker) report(ctx context.Context) {
	for {
		batch := w.ends.take(ctx)
		if len(batch) == 0 {
			return
		}
		reports := make([]carillon.Report, len(batch))
		for i := range batch {
			reports[i] = carillon.Report{
				Held: batch[i].Held(), Token: batch[i].Token, Lines: batch[i].rest, End: &batch[i].outcome,
			}
		}
		receipts, ok := w.insist(ctx, reports)
		for i := range batch {
			if ok && receipts[i] == carillon.ReceiptRefused {
				w.cfg.Logger.Warn(
					"result refused: the attempt no longer holds its run", "run", batch[i].Run.ID,
					"attempt", batch[i].Run.Attempt,
				)
			}
			w.drop(batch[i])
		}
		w.ends.acknowledged(batch)
	}
}

// insist repeats a report until the dispatcher answers; it gives up only when the worker does.
func (w *Worker) insist(
	ctx context.Context, reports []carillon.Report,
) (receipts []carillon.Receipt, ok bool) {
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		receipts, err := w.cfg.Dispatcher.Report(ctx, w.ID(), reports)
		if err == nil {
			return receipts, true
		}
		w.silent("report results", err)
		if !await.For(ctx, wait) {
			// The error goes into the log as text: the node's log would take an error of the store for one
			// more line of an outage, and it holds most of those back.
			w.cfg.Logger.Error(
				"results not recorded: their runs will be performed again", "runs", len(reports),
				"error", err.Error(),
			)
			return nil, false
		}
	}
}
