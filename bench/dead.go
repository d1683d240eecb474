package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/client"
	"github.com/carillon-run/carillon/internal/idgen"
)

// deadBars are the same for every store.
var deadBars = []bar{
	{figure: "dead_groups_1m", limit: 300, atMost: true},
	{figure: "redrive_rate", limit: redriveRate * 0.95},
	{figure: "redrive_rate_most", limit: redriveRate * 1.05, atMost: true},
	{figure: "redrive_canceled_after", limit: 1, atMost: true},
}

const (
	deadErrors  = 1000 // different ones
	redriveRate = 1000
)

// deadScenario: a million dead letters with a thousand different errors. How long does it take to group them?
// Then 100,000 dead letters are redriven at 1,000 a second, with a cancel and a restart of the node in
// between.
func deadScenario(ctx context.Context, b *bench) error {
	if err := b.groups(ctx); err != nil {
		return err
	}
	return b.redrive(ctx)
}

// bury fills a store with dead letters.
func (b *bench) bury(ctx context.Context, at place, n int) error {
	store, _, err := at.open(ctx)
	if err != nil {
		return err
	}
	ids := idgen.New(1, carillon.Never)
	now := carillon.Now()
	for from := 0; from < n && err == nil; from += 1000 {
		var submits, ends []carillon.Change
		for i := from; i < min(from+1000, n); i++ {
			submit, end, made := dead(ids, i, now)
			if made != nil {
				return errors.Join(made, store.Close())
			}
			submits, ends = append(submits, submit), append(ends, end)
		}
		for _, changes := range [][]carillon.Change{submits, ends} {
			lost, failed := store.Commit(ctx, changes)
			if err = failed; err == nil && len(lost) > 0 {
				err = fmt.Errorf("%d changes lost", len(lost))
			}
		}
		if (from+1000)%100_000 == 0 {
			b.say("%d of %d dead letters", from+1000, n)
		}
	}
	return errors.Join(err, store.Close())
}

// dead returns the changes that submit a job and let its run fail for good.
func dead(ids *idgen.IDs, i int, now carillon.Time) (submit, end carillon.Change, err error) {
	job := &carillon.Job{Namespace: carillon.DefaultNamespace}
	if job.ID, err = ids.Next(now); err != nil {
		return submit, end, err
	}
	job.Type, job.Target.Handler, job.Payload = "bench", &carillon.Handler{}, payload
	if err := job.Admit(now); err != nil {
		return submit, end, err
	}
	submit = carillon.Submit(job, now)
	run := submit.Runs[0].Claim("worker", now)
	run.Rev, run.About = 1, &carillon.About{Name: job.Name, Type: job.Type, Owner: job.Owner}
	kind := i % deadErrors
	reason := fmt.Sprintf(
		"step %c%c%c: open /var/lib/batch/%d.csv: no such file or directory", 'a'+kind/100, 'a'+kind/10%10,
		'a'+kind%10, i,
	)
	return submit, carillon.Change{Runs: []carillon.Run{run.End(carillon.StateFailed, reason, now)}}, nil
}

// groups measures how long it takes to group dead letters.
func (b *bench) groups(ctx context.Context) error {
	at, err := b.fresh(ctx)
	if err != nil {
		return err
	}
	n := b.count(1_000_000)
	begin := time.Now()
	if err := b.bury(ctx, at, n); err != nil {
		return err
	}
	b.figure("dead_fill", float64(n)/time.Since(begin).Seconds(), "letters/s")
	store, _, err := at.open(ctx)
	if err != nil {
		return err
	}
	var took []time.Duration
	q := carillon.DeadGroupQuery{Namespace: carillon.DefaultNamespace, Limit: deadErrors}
	for range 11 {
		begin := time.Now()
		groups, err := store.DeadGroups(ctx, q)
		took = append(took, time.Since(begin))
		if err == nil && (len(groups) != min(deadErrors, n) || groups[0].Count != max(n/deadErrors, 1)) {
			err = fmt.Errorf("%d groups", len(groups))
		}
		if err != nil {
			return errors.Join(err, store.Close())
		}
	}
	slices.Sort(took)
	b.figure("dead_groups_1m", float64(took[len(took)/2].Microseconds())/1000, "ms")
	b.figure("dead_groups_1m_most", float64(took[len(took)-1].Microseconds())/1000, "ms")
	return errors.Join(store.Close(), b.discard(ctx, at))
}

// redrive measures an operation that retries dead letters while their runs are performed.
func (b *bench) redrive(ctx context.Context) error {
	at, err := b.fresh(ctx)
	if err != nil {
		return err
	}
	n := b.count(100_000)
	if err := b.bury(ctx, at, n); err != nil {
		return err
	}
	serve := func() (*house, *client.Client, error) {
		cfg := at.config(slots)
		cfg.Listen = loopback
		h, err := open(cfg, nil)
		if err != nil {
			return nil, nil, err
		}
		b.houses = append(b.houses, h)
		caller, err := h.caller()
		return h, caller, err
	}
	h, caller, err := serve()
	if err != nil {
		return err
	}
	if err := b.cancelRedrive(ctx, h, caller); err != nil {
		return err
	}
	id, err := startRedrive(ctx, caller)
	if err != nil {
		return err
	}
	first, err := paced(ctx, caller, id, n/3)
	if err != nil {
		return err
	}
	before := h.started.Load()
	if err := h.stop(); err != nil {
		return err
	}
	if h, caller, err = serve(); err != nil {
		return err
	}
	second, err := paced(ctx, caller, id, n)
	if err != nil {
		return err
	}
	op, err := caller.Operation(ctx, id)
	if err != nil {
		return err
	}
	if left, begun := op.Total-op.Done, before+h.started.Load(); left != 0 || op.Failed+op.Skipped != 0 {
		return fmt.Errorf("%d of %d are done, %d runs began", op.Done, op.Total, begun)
	}
	b.figure("redrive_rate", min(first, second), "letters/s")
	b.figure("redrive_rate_most", max(first, second), "letters/s")
	return b.leave(ctx, at, h)
}

func startRedrive(ctx context.Context, caller *client.Client) (carillon.OperationID, error) {
	rate := redriveRate
	op, err := caller.StartOperation(ctx, client.OperationRequest{
		Kind: carillon.OperationRedrive, Dead: &carillon.DeadFilter{All: true}, Rate: &rate,
	})
	return op.ID, err
}

// cancelRedrive measures how long after its cancel was answered an operation still begins runs.
func (b *bench) cancelRedrive(ctx context.Context, h *house, caller *client.Client) error {
	id, err := startRedrive(ctx, caller)
	if err != nil {
		return err
	}
	if err := until(ctx, func() bool { return h.started.Load() > redriveRate/2 }); err != nil {
		return err
	}
	if _, err := caller.CancelOperation(ctx, id); err != nil {
		return err
	}
	canceled := time.Now()
	last, seen := canceled, h.started.Load()
	for time.Since(canceled) < 3*time.Second {
		if now := h.started.Load(); now != seen {
			seen, last = now, time.Now()
		}
		time.Sleep(time.Millisecond)
	}
	b.figure("redrive_canceled_after", last.Sub(canceled).Seconds(), "s")
	return nil
}

// paced waits until an operation has acted on a number of things, or is over, and returns its rate by what
// its record says: from the first record with progress that is read to the last.
func paced(
	ctx context.Context, caller *client.Client, id carillon.OperationID, goal int,
) (rate float64, err error) {
	var first, last carillon.Operation
	for ctx.Err() == nil {
		op, err := caller.Operation(ctx, id)
		if err != nil {
			return 0, err
		}
		switch {
		case op.State == carillon.OperationRunning && op.Done > first.Done && first.ID == 0 && op.Done > 0:
			first = op
		case op.Done > last.Done:
			last = op
		}
		if op.Done >= goal || op.State.Over() {
			return float64(last.Done-first.Done) / last.Updated.Sub(first.Updated).Seconds(), nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return 0, ctx.Err()
}
