package dispatch

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/await"
	"github.com/carillon-run/carillon/internal/failpoint"
	"github.com/carillon-run/carillon/worker/protocol"
)

// maxTries bounds how often reports are decided about again after another writer was quicker.
const maxTries = 10

// Report implements protocol.Dispatcher. It decides at once with the runs that this node remembers. Where a
// run is missing or was old, it reads the store and decides again.
func (d *Dispatcher) Report(
	ctx context.Context, worker string, reports []protocol.Report,
) ([]protocol.Receipt, error) {
	receipts, kept := make([]protocol.Receipt, len(reports)), true
	open := make([]int, len(reports)) // those without a receipt
	for i := range open {
		open[i] = i
	}
	for try := 0; len(open) > 0; try++ {
		if try == maxTries {
			return nil, errors.New("the runs change too quickly to record what was reported; try again")
		}
		if try > 1 {
			await.For(ctx, time.Duration(try)*time.Millisecond) // another call here is busy with a run
		}
		if err := d.recall(ctx, worker, reports, open, try > 0, receipts); err != nil {
			return nil, err
		}
		open = without(open, receipts)
		if try == 0 {
			kept = d.keepLines(ctx, reports, open)
		}
		if err := d.record(ctx, reports, open, receipts); err != nil {
			return nil, err
		}
		open = without(open, receipts)
	}
	if !kept {
		askAgain(reports, receipts)
	}
	failpoint.At("receipt.before")
	return receipts, nil
}

// askAgain asks the worker once more for lines that were not kept. It does not ask for the lines of an
// attempt that has ended: a log store that takes nothing, such as a full disk, must not hold up a result.
func askAgain(reports []protocol.Report, receipts []protocol.Receipt) {
	for i := range reports {
		if len(reports[i].Lines) > 0 && reports[i].End == nil && receipts[i] == protocol.ReceiptRecorded {
			receipts[i] = protocol.ReceiptAgain
		}
	}
}

// without removes the reports that have a receipt, in place.
func without(open []int, receipts []protocol.Receipt) []int {
	return slices.DeleteFunc(open, func(i int) bool { return receipts[i] != "" })
}

// recall makes sure that the run of each report is remembered. It reads runs that are not remembered, or all
// of them with again. Reports of attempts that no longer hold their run get their receipt.
func (d *Dispatcher) recall(
	ctx context.Context, worker string, reports []protocol.Report, open []int, again bool,
	receipts []protocol.Receipt,
) error {
	byRun := map[carillon.RunID][]int{} // reports whose run is not remembered
	var ids []carillon.RunID
	d.mu.Lock()
	for _, i := range open {
		r := &reports[i]
		if h := d.inflight.runs[r.Run]; !again && h.holds(r) &&
			(!h.run.Has(carillon.FlagGuarded) || h.guards != nil) {
			continue
		}
		if byRun[r.Run] == nil {
			ids = append(ids, r.Run)
		}
		byRun[r.Run] = append(byRun[r.Run], i)
	}
	d.mu.Unlock()
	if len(ids) == 0 {
		return nil
	}
	runs, err := d.cfg.Store.Runs(ctx, ids, false)
	if err != nil {
		return fmt.Errorf("read reported runs: %w", err)
	}
	found := map[carillon.RunID]*carillon.Run{}
	var held []carillon.Run
	for k := range runs {
		found[runs[k].ID] = &runs[k]
		for _, i := range byRun[runs[k].ID] {
			if runs[k].State.Held() && runs[k].Held() == reports[i].Held {
				held = append(held, runs[k])
				break
			}
		}
	}
	if err := d.remember(ctx, held); err != nil {
		return err
	}
	for id, is := range byRun {
		for _, i := range is {
			if run := found[id]; run == nil || !run.State.Held() || run.Held() != reports[i].Held {
				receipts[i] = d.verdict(run, worker, &reports[i])
				d.drop(reports[i].Held)
			}
		}
	}
	return nil
}

// drop forgets an attempt that no longer holds its run.
func (d *Dispatcher) drop(held carillon.Held) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if h := d.inflight.runs[held.Run]; h != nil && h.run.Held() == held && !h.pending {
		d.inflight.drop(h)
		d.tellFreed()
	}
}

// verdict is the receipt for a report of an attempt that no longer holds its run.
func (d *Dispatcher) verdict(run *carillon.Run, worker string, r *protocol.Report) protocol.Receipt {
	if run != nil && r.End != nil && run.Records(r.Held, r.End) {
		return protocol.ReceiptRecorded
	}
	if r.End != nil && r.End.Kind == carillon.OutcomeLost { // it has ended, or was taken back already
		return protocol.ReceiptRefused
	}
	d.cfg.Logger.Warn(
		"report refused: the attempt no longer holds its run", "run", r.Run, "attempt", r.Attempt(),
		"worker", worker,
	)
	return protocol.ReceiptRefused
}

// remember keeps held runs, with their definitions and guards, as they were read just now.
func (d *Dispatcher) remember(ctx context.Context, runs []carillon.Run) error {
	if len(runs) == 0 {
		return nil
	}
	candidates, err := d.cfg.Ledger.Candidates(ctx, runs, "")
	if err != nil {
		return fmt.Errorf("read what reported runs rest on: %w", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range candidates {
		candidate := &candidates[i]
		if h := d.inflight.runs[candidate.Run.ID]; h == nil || h.committed {
			d.inflight.put(&inflight{
				run: candidate.Run, job: candidate.Job, guards: candidate.Guards, committed: true,
			})
		}
	}
	return nil
}

// appendAgain is how long a node waits before it offers the last lines of a run to the log store a second
// time: a connection that broke must not cost these lines. A log store that was slow to fail is not asked
// again, because the result of the run waits.
const appendAgain = 100 * time.Millisecond

// keepLines hands output to the log store.
func (d *Dispatcher) keepLines(ctx context.Context, reports []protocol.Report, open []int) (kept bool) {
	var chunks []carillon.Chunk
	last := false // some of the lines are sent only once: see askAgain
	d.mu.Lock()
	for _, i := range open {
		r := &reports[i]
		if len(r.Lines) == 0 {
			continue
		}
		last = last || r.End != nil
		if h := d.inflight.runs[r.Run]; h != nil && h.job != nil {
			chunks = append(chunks, carillon.Chunk{
				Namespace: h.run.Namespace, Run: r.Run, Attempt: r.Attempt(), Offset: r.Lines[0].Offset,
				Lines: r.Lines,
				Keep:  h.job.Retention.Logs.Std(),
			})
		}
	}
	d.mu.Unlock()
	if len(chunks) == 0 {
		return true
	}
	began := time.Now()
	err := d.cfg.Logs.Append(ctx, chunks)
	if err != nil && last && time.Since(began) < time.Second && await.For(ctx, appendAgain) {
		err = d.cfg.Logs.Append(ctx, chunks)
	}
	if err != nil && ctx.Err() == nil { // a caller that gives up, as a run that stops does, sends them again
		d.cfg.Logger.Error("keep output", "runs", len(chunks), "error", err)
	}
	return err == nil
}

// record commits what the reports say about their runs. Those that won get their receipt.
func (d *Dispatcher) record(
	ctx context.Context, reports []protocol.Report, open []int, receipts []protocol.Receipt,
) error {
	now := d.cfg.Clock.Now()
	ends, endOf := make([]carillon.Change, 0, len(open)), make([]int, 0, len(open))
	var marks []carillon.Change
	var markOf []int
	d.mu.Lock()
	for _, i := range open {
		r := &reports[i]
		h := d.inflight.runs[r.Run]
		switch {
		case !h.holds(r): // taken away meanwhile: the next try reads it
		case r.End != nil:
			ends, endOf = append(ends, h.end(r, now)), append(endOf, i)
		case r.Checkpoint != nil || r.Begun != 0 && h.run.State == carillon.StateClaimed:
			marks, markOf = append(marks, h.mark(r, now)), append(markOf, i)
		default:
			receipts[i] = protocol.ReceiptRecorded
		}
	}
	d.mu.Unlock()
	answers := make(chan error, 2)
	go d.commit(ctx, marks, markOf, receipts, d.cfg.Ledger.Commit, answers)
	d.commit(ctx, ends, endOf, receipts, d.post, answers)
	return errors.Join(<-answers, <-answers)
}

type committer func(context.Context, []carillon.Change) ([]int, error)

func (d *Dispatcher) commit(
	ctx context.Context, changes []carillon.Change, of []int, receipts []protocol.Receipt, with committer,
	answer chan<- error,
) {
	if len(changes) == 0 {
		answer <- nil
		return
	}
	lost, err := with(ctx, changes)
	if err != nil {
		answer <- err
		return
	}
	for k, i := range of {
		if len(lost) > 0 && lost[0] == k {
			lost = lost[1:]
			continue
		}
		receipts[i] = protocol.ReceiptRecorded
	}
	answer <- nil
}

// endsAtOnce is how many ends are posted together: starts that come meanwhile have to wait for them.
const endsAtOnce = 500

// post commits ends. The ledger lets starts go first.
func (d *Dispatcher) post(ctx context.Context, changes []carillon.Change) (lost []int, err error) {
	type answer struct {
		first int
		lost  []int
		err   error
	}
	pieces := (len(changes) + endsAtOnce - 1) / endsAtOnce
	done := make(chan answer, pieces)
	failpoint.At("end.before")
	for first := 0; first < len(changes); first += endsAtOnce {
		d.cfg.Ledger.Post(changes[first:min(first+endsAtOnce, len(changes))], func(lost []int, err error) {
			done <- answer{first, lost, err}
		})
	}
	for range pieces {
		select {
		case a := <-done:
			for _, i := range a.lost {
				lost = append(lost, a.first+i)
			}
			err = errors.Join(err, a.err)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	failpoint.At("end.after")
	slices.Sort(lost)
	return lost, err
}

// holds says whether the remembered run is the attempt that the report is about.
func (h *inflight) holds(r *protocol.Report) bool {
	return h != nil && h.committed && h.job != nil && h.run.Held() == r.Held
}

func (h *inflight) end(r *protocol.Report, now carillon.Time) carillon.Change {
	run := h.run
	if r.Checkpoint != nil {
		run.Output = &carillon.Output{Checkpoint: r.Checkpoint}
		if r.End.Output != nil && r.End.Output.Result != nil {
			r.End.Output.Checkpoint = r.Checkpoint
		}
	}
	return carillon.EndChange(h.job, run.Finish(h.job, *r.End, now, rand.Float64()), h.guards)
}

func (h *inflight) mark(r *protocol.Report, now carillon.Time) carillon.Change {
	run := h.run
	if r.Begun != 0 && run.State == carillon.StateClaimed {
		run = run.Begin(r.Begun, now)
	}
	if r.Checkpoint != nil {
		run.Output = &carillon.Output{Checkpoint: r.Checkpoint}
	}
	return carillon.Change{Runs: []carillon.Run{run}}
}
