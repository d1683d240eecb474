package conductor

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/carillon-run/carillon"
)

// lookAtWorkflow does what a run of a workflow needs beside the ends of its nodes: it reads lists, sees that
// waits hear of their signals, stops what is to be stopped, and ends the run when all nodes have ended.
func (c *Conductor) lookAtWorkflow(ctx context.Context, of *carillon.Candidate) error {
	p, err := c.values.progress(ctx, of.Run.Namespace, of.Run.ID)
	if err != nil {
		return err
	}
	if p == nil {
		return c.finish(ctx, of, carillon.Outcome{
			Kind: carillon.OutcomeFatal, Reason: "the progress of the workflow is gone",
		}, carillon.Change{})
	}
	w, now := of.Job.Target.Workflow, c.cfg.Clock.Now()
	deadline := carillon.Never
	if w.Deadline != 0 {
		deadline = p.Start.Add(w.Deadline.Std())
	}
	switch {
	case p.Open == 0:
		return c.end(ctx, of, p)
	case p.Stop != carillon.StopNone:
		if err := c.stopNodes(ctx, of, p); err != nil {
			return err
		}
	case of.Run.Has(carillon.FlagStop):
		return c.stop(ctx, of, carillon.StopCanceled)
	case now >= deadline:
		return c.stop(ctx, of, carillon.StopDeadline)
	default:
		if err := c.expandAll(ctx, of, p); err != nil {
			return err
		}
		if err := c.signalWaits(ctx, of, p); err != nil {
			return err
		}
	}
	if p.Stop != carillon.StopNone {
		deadline = carillon.Never
	}
	return c.later(ctx, of.Run, deadline)
}

// end ends the run of a workflow, of which all nodes have ended, and lets its progress expire with the
// record.
func (c *Conductor) end(ctx context.Context, of *carillon.Candidate, p *carillon.Progress) error {
	kind, bad := p.Outcome(of.Job.Target.Workflow)
	outcome := carillon.Outcome{Kind: kind}
	switch {
	case kind == carillon.OutcomeStopped:
		outcome.Reason = of.Run.Reason
	case p.Stop == carillon.StopDeadline:
		outcome.Reason = fmt.Sprintf("the deadline of %s passed", of.Job.Target.Workflow.Deadline)
	case len(bad) > 0:
		outcome.Reason = "did not succeed: " + strings.Join(bad, ", ")
	}
	signals, err := c.cfg.Store.Guards(ctx, carillon.GuardQuery{
		Namespace: of.Run.Namespace, Prefix: of.Run.ID.SignalKey(""),
	})
	if err != nil {
		return err
	}
	for i := range signals {
		signals[i].Value = nil
	}
	keep := of.Job.Retention.Or(c.cfg.Retention)
	expires := c.cfg.Clock.Now().Add(max(keep.Runs, keep.DeadLetters).Std())
	return c.finish(ctx, of, outcome, carillon.Change{
		Guards: signals, Folds: []carillon.Fold{carillon.ExpireOf(of.Job, of.Run.ID, expires)},
	})
}

// stop notes that the run stops. The next look, which the commit sets off, stops the nodes that go on.
func (c *Conductor) stop(ctx context.Context, of *carillon.Candidate, why carillon.Stop) error {
	lost, err := c.cfg.Ledger.Commit(ctx, []carillon.Change{{
		Folds: []carillon.Fold{carillon.StopOf(of.Job, of.Run.ID, why)},
	}})
	if err != nil {
		return err
	}
	if len(lost) > 0 {
		return c.finish(ctx, of, carillon.Outcome{
			Kind: carillon.OutcomeStopped, Reason: "its progress does not fit its definition",
		}, carillon.Change{})
	}
	c.lookAt(of.Run.ID)
	return nil
}

// stopNodes cancels the jobs of the nodes that have not ended. To cancel one again does no harm.
func (c *Conductor) stopNodes(ctx context.Context, of *carillon.Candidate, p *carillon.Progress) error {
	var stops errgroup.Group
	stops.SetLimit(width)
	cancel := func(node int, id carillon.JobID) {
		stops.Go(func() error {
			_, err := c.cfg.Ledger.CancelUnfinishedJob(ctx, of.Run.Namespace, id, false)
			switch {
			case errors.Is(err, carillon.ErrConflict): // it has ended
				return nil
			case errors.Is(err, carillon.ErrNotFound): // retention has removed it: no run of it will end
				_, err = c.cfg.Ledger.Commit(ctx, []carillon.Change{{
					Folds: []carillon.Fold{carillon.LoseOf(of.Job, of.Run.ID, node)},
				}})
			}
			return err
		})
	}
	for node := range p.Nodes() {
		if p.State(node) != carillon.NodeActive {
			continue
		}
		if m := p.Map(node); m != nil {
			for i := range m.Items {
				cancel(node, m.Base.Nth(i))
			}
			continue
		}
		id, _ := p.JobOf(node)
		cancel(node, id)
	}
	return stops.Wait()
}

// expandAll reads the lists of nodes that can begin, and inserts a run for each item.
func (c *Conductor) expandAll(ctx context.Context, of *carillon.Candidate, p *carillon.Progress) error {
	w := of.Job.Target.Workflow
	f := &flow{Values: c.values, id: of.Run.ID, job: of.Job, progress: p, results: map[string][]byte{}}
	for node := range p.Nodes() {
		if p.State(node) != carillon.NodeExpanding {
			continue
		}
		items, bad, err := f.list(ctx, w.Nodes[node].Map)
		if err != nil {
			return err
		}
		if bad == nil {
			bad = p.TooMany(&w.Nodes[node], items)
		}
		fold := carillon.Fold{}
		if bad != nil {
			fold = carillon.FailOf(of.Job, of.Run.ID, node, bad.Error())
		} else {
			base, err := c.cfg.IDs.Block(c.cfg.Clock.Now(), len(items))
			if err != nil {
				return err
			}
			fold = carillon.ExpandOf(of.Job, of.Run.ID, node, items, base)
		}
		// A fold that says no was made before.
		if _, err := c.cfg.Ledger.Commit(ctx, []carillon.Change{{Folds: []carillon.Fold{fold}}}); err != nil {
			return err
		}
	}
	return nil
}

// signalWaits looks at the waits whose signals have come.
func (c *Conductor) signalWaits(ctx context.Context, of *carillon.Candidate, p *carillon.Progress) error {
	w := of.Job.Target.Workflow
	waits := map[string][]carillon.JobID{}
	var keys []string
	for node := range p.Nodes() {
		wait := w.Nodes[node].Target.Wait
		if wait == nil || wait.Signal == "" || p.State(node) != carillon.NodeActive {
			continue
		}
		key := of.Run.ID.SignalKey(wait.Signal)
		id, _ := p.JobOf(node)
		waits[key], keys = append(waits[key], id), append(keys, key)
	}
	if len(keys) == 0 {
		return nil
	}
	guards, err := c.cfg.Store.Guards(ctx, carillon.GuardQuery{Namespace: of.Run.Namespace, Keys: keys})
	if err != nil {
		return err
	}
	for i := range guards {
		for _, job := range waits[guards[i].Key] {
			page, err := c.cfg.Store.FindRuns(ctx, carillon.RunQuery{
				Namespace: of.Run.Namespace, Job: job, States: []carillon.State{carillon.StateRunning},
			})
			if err != nil {
				return err
			}
			for k := range page.Runs {
				c.lookAt(page.Runs[k].ID)
			}
		}
	}
	return nil
}
