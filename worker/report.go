package worker

import (
	"context"
	"sync"
	"time"

	"github.com/carillon-run/carillon/internal/await"
	"github.com/carillon-run/carillon/internal/failpoint"
	"github.com/carillon-run/carillon/worker/protocol"
)

const (
	// A worker sends up to quickReports reports at the same time at once. While that many are under way, it
	// collects ends for collectEnds and then sends the next report beside them, up to reportLoops in all: an
	// end must not wait for the commit of others before the dispatcher hears of it.
	quickReports = 4
	reportLoops  = 16
	collectEnds  = 10 * time.Millisecond
	// maxReports bounds one report.
	maxReports = 2000
	// weight is about how many bytes a run without a payload takes, here and in a dispatcher in the same
	// process.
	weight = 1200
)

// ends are the results that wait to be reported.
type ends struct {
	mu         sync.Mutex
	waiting    []*attempt // each with its outcome
	sending    int        // reports that are under way
	collecting bool       // a loop waits for more ends, and takes them then
	ready      await.Signal
}

func (e *ends) add(a *attempt) {
	e.mu.Lock()
	e.waiting = append(e.waiting, a)
	collecting := e.collecting
	e.mu.Unlock()
	if !collecting {
		e.ready.Set()
	}
}

// take waits for results and takes some; it returns none when ctx has ended. A caller that got some calls
// sent later.
func (e *ends) take(ctx context.Context) []*attempt {
	e.mu.Lock()
	defer e.mu.Unlock()
	for len(e.waiting) == 0 || e.collecting {
		e.mu.Unlock()
		select {
		case <-e.ready:
			e.mu.Lock()
		case <-ctx.Done():
			e.mu.Lock()
			return nil
		}
	}
	if e.sending >= quickReports {
		e.collecting = true
		e.mu.Unlock()
		await.For(ctx, collectEnds)
		e.mu.Lock()
		e.collecting = false
	}
	e.sending++
	n := min(len(e.waiting), maxReports)
	batch := e.waiting[:n:n]
	e.waiting = e.waiting[n:]
	if len(e.waiting) > 0 {
		e.ready.Set()
	} else {
		e.waiting = nil
	}
	return batch
}

func (e *ends) sent() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sending--
}

// weigh is about how many bytes a task holds in memory.
func weigh(task *protocol.Task) int { return weight + task.Job.Weight() + len(task.Checkpoint) }

// weighEnd is about how many bytes the end of the attempt adds.
func (a *attempt) weighEnd() int {
	n := len(a.outcome.Reason)
	if out := a.outcome.Output; out != nil {
		n += len(out.Result)
	}
	for i := range a.rest {
		n += len(a.rest[i].Text)
	}
	return n
}

// report sends results until each has its receipt: an outage never makes it give up a result.
func (w *Worker) report(ctx context.Context) {
	for {
		batch := w.ends.take(ctx)
		if len(batch) == 0 {
			return
		}
		reports := make([]protocol.Report, len(batch))
		for i := range batch {
			reports[i] = protocol.Report{
				Held: batch[i].Held(), Token: batch[i].Token, Lines: batch[i].rest, End: &batch[i].outcome,
			}
		}
		receipts, ok := w.insist(ctx, reports)
		failpoint.At("receipt.after")
		bytes := 0
		for i := range batch {
			bytes += weigh(&batch[i].Task) + batch[i].weighEnd()
			if ok && receipts[i] == protocol.ReceiptRefused {
				w.cfg.Logger.Warn(
					"result refused: the attempt no longer holds its run", "run", batch[i].Run.ID,
					"attempt", batch[i].Run.Attempt,
				)
			}
			w.drop(batch[i])
		}
		w.ends.sent()
		w.slots.recorded(len(batch), bytes)
	}
}

// insist repeats a report until the dispatcher answers; it gives up only when the worker does.
func (w *Worker) insist(
	ctx context.Context, reports []protocol.Report,
) (receipts []protocol.Receipt, ok bool) {
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
