package ledger

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/carillon-run/carillon"
)

// Signal sends a signal to a run of a workflow, or to the run of the node that waits for it: then the
// name can be empty. A signal can come before its node waits. It can be sent once.
func (l *Ledger) Signal(
	ctx context.Context, namespace string, id carillon.RunID, name string, payload json.RawMessage,
) (carillon.Run, error) {
	id, name, err := l.signaled(ctx, namespace, id, name)
	if err != nil {
		return carillon.Run{}, err
	}
	return l.updateFlow(ctx, namespace, id, func(f *flow, now carillon.Time) (carillon.Change, error) {
		c, err := carillon.SendSignal(f.job, &f.run, name, payload, now)
		if err != nil {
			return c, err
		}
		sent, err := l.cfg.Store.Guards(ctx, carillon.GuardQuery{
			Namespace: namespace, Keys: []string{id.SignalKey(name)},
		})
		if err == nil && len(sent) > 0 {
			err = fmt.Errorf("%w: the signal %s was sent to %s already", carillon.ErrConflict, name, id)
		}
		return c, err
	})
}

// signaled is the run of the workflow and the name of the signal that a caller means.
func (l *Ledger) signaled(
	ctx context.Context, namespace string, id carillon.RunID, name string,
) (carillon.RunID, string, error) {
	run, err := l.run(ctx, namespace, id)
	if err != nil {
		return id, name, err
	}
	jobs, err := l.cfg.Store.Jobs(ctx, []carillon.JobVersion{run.Definition()})
	if err != nil || len(jobs) == 0 {
		return id, name, err
	}
	part, is := jobs[0].Part()
	if wait := jobs[0].Target.Wait; is && wait != nil && (name == "" || name == wait.Signal) {
		return part.Run, wait.Signal, nil
	}
	return id, name, nil
}

// flow is a run of a workflow that has not ended, with its definition and progress.
type flow struct {
	job      *carillon.Job
	run      carillon.Run
	progress *carillon.Progress // nil: it has not begun
}

// updateFlow changes a run of a workflow that has not ended.
func (l *Ledger) updateFlow(
	ctx context.Context, namespace string, id carillon.RunID,
	decide func(f *flow, now carillon.Time) (carillon.Change, error),
) (carillon.Run, error) {
	_, run, err := l.updateJob(ctx, namespace, id.Job,
		func(w carillon.JobSnapshot, now carillon.Time) (c carillon.Change, run carillon.Run, err error) {
			f, err := l.flow(ctx, &w, id)
			if err != nil {
				return c, run, err
			}
			c, err = decide(f, now)
			return c, f.run, err
		})
	return run, err
}

func (l *Ledger) flow(ctx context.Context, w *carillon.JobSnapshot, id carillon.RunID) (*flow, error) {
	if w.Job.Target.Workflow == nil {
		return nil, fmt.Errorf("%w: %s is no run of a workflow", carillon.ErrConflict, id)
	}
	i := slices.IndexFunc(w.Runs, func(r carillon.Run) bool { return r.ID == id })
	if i < 0 {
		if _, err := l.run(ctx, w.Job.Namespace, id); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("%w: %s has ended already", carillon.ErrConflict, id)
	}
	f := &flow{run: w.Runs[i]}
	jobs, err := l.Definitions.Get(ctx, []carillon.JobVersion{f.run.Definition()})
	if err != nil {
		return nil, err
	}
	if f.job = jobs[0]; f.job == nil || f.job.Target.Workflow == nil {
		return nil, fmt.Errorf("%w: %s is no run of a workflow", carillon.ErrConflict, id)
	}
	f.progress, err = l.progress(ctx, w.Job.Namespace, id)
	return f, err
}

func (l *Ledger) progress(
	ctx context.Context, namespace string, id carillon.RunID,
) (*carillon.Progress, error) {
	guards, err := l.cfg.Store.Guards(ctx, carillon.GuardQuery{
		Namespace: namespace, Keys: []string{id.WorkflowKey()},
	})
	if err != nil || len(guards) == 0 {
		return nil, err
	}
	return carillon.ProgressOf(guards[0].Value)
}

// node is the index of a node, and its state.
func (f *flow) node(name string) (int, carillon.NodeState, error) {
	i, known := f.job.Target.Workflow.NodeIndex(name)
	switch {
	case !known:
		return 0, 0, fmt.Errorf("%w: no node of the workflow is named %q", carillon.ErrNotFound, name)
	case f.progress == nil || f.progress.Start == 0:
		return i, 0, fmt.Errorf("%w: %s has not begun", carillon.ErrConflict, f.run.ID)
	case f.progress.Stop != carillon.StopNone || f.progress.Open == 0:
		return i, 0, fmt.Errorf("%w: %s is about to end", carillon.ErrConflict, f.run.ID)
	}
	return i, f.progress.State(i), nil
}

// RetryNode begins a node once more that failed or was canceled, while the run of its workflow goes on. Nodes
// that were skipped because of it are decided about again. It returns the run that begins; a node with a list
// reads its list again, and the run is that of the workflow.
func (l *Ledger) RetryNode(
	ctx context.Context, namespace string, id carillon.RunID, name string,
) (carillon.Run, error) {
	latest, err := l.latestOf(ctx, namespace, id, name)
	if err != nil {
		return carillon.Run{}, err
	}
	if !latest.IsZero() {
		return l.RetryRun(ctx, namespace, latest)
	}
	return l.updateFlow(ctx, namespace, id, func(f *flow, _ carillon.Time) (c carillon.Change, err error) {
		node, state, err := f.node(name)
		if err != nil {
			return c, err
		}
		if state != carillon.NodeFailed && state != carillon.NodeCanceled {
			return c, fmt.Errorf("%w: the node %s is %s: only one that failed or was canceled can be retried",
				carillon.ErrConflict, name, state)
		}
		c.Folds = []carillon.Fold{carillon.RetryOf(f.job, id, node)}
		if job, has := f.progress.JobOf(node); has {
			c.Retried, err = l.deadOf(ctx, namespace, job)
		}
		return c, err
	})
}

// latestOf is the latest run of a node that has no list; zero: there is none, or the node has a list.
func (l *Ledger) latestOf(
	ctx context.Context, namespace string, id carillon.RunID, name string,
) (carillon.RunID, error) {
	w, err := l.Snapshot(ctx, namespace, id.Job)
	if err != nil {
		return carillon.RunID{}, err
	}
	f, err := l.flow(ctx, &w, id)
	if err != nil {
		return carillon.RunID{}, err
	}
	node, state, err := f.node(name)
	if err != nil || state != carillon.NodeFailed && state != carillon.NodeCanceled ||
		f.job.Target.Workflow.Nodes[node].Map != "" {
		return carillon.RunID{}, err
	}
	job, _ := f.progress.JobOf(node)
	page, err := l.cfg.Store.FindRuns(ctx, carillon.RunQuery{Namespace: namespace, Job: job, Limit: 1})
	if err != nil {
		return carillon.RunID{}, err
	}
	if len(page.Runs) == 0 {
		return carillon.RunID{}, fmt.Errorf(
			"%w: the runs of %s are no longer kept", carillon.ErrConflict, name,
		)
	}
	return page.Runs[0].ID, nil
}

// deadOf are the dead letters of a job.
func (l *Ledger) deadOf(
	ctx context.Context, namespace string, job carillon.JobID,
) (ids []carillon.RunID, err error) {
	page, err := l.cfg.Store.FindRuns(ctx, carillon.RunQuery{Namespace: namespace, Job: job, Dead: true})
	for i := range page.Runs {
		ids = append(ids, page.Runs[i].ID)
	}
	return ids, err
}

// SkipNode lets those that follow a node go on as if it had succeeded: one that has not begun, or that
// failed.
func (l *Ledger) SkipNode(
	ctx context.Context, namespace string, id carillon.RunID, name string,
) (carillon.Run, error) {
	return l.updateFlow(ctx, namespace, id, func(f *flow, _ carillon.Time) (c carillon.Change, err error) {
		node, state, err := f.node(name)
		if err != nil {
			return c, err
		}
		if state == carillon.NodeActive || state == carillon.NodeSucceeded || state == carillon.NodePassed {
			return c, fmt.Errorf("%w: the node %s is %s: only one that has not begun, or did not succeed, "+
				"can be skipped", carillon.ErrConflict, name, state)
		}
		c.Folds = []carillon.Fold{carillon.PassOf(f.job, id, node)}
		return c, nil
	})
}

// retryPart is RetryRun for a run that is a part of a workflow. retry makes the change that adds the run.
func (l *Ledger) retryPart(
	ctx context.Context, w *carillon.JobSnapshot, of *carillon.Run,
	retry func() (carillon.Change, carillon.Run, error),
) (c carillon.Change, run carillon.Run, err error) {
	part, _ := w.Job.Part()
	runs, err := l.cfg.Store.Runs(ctx, []carillon.RunID{part.Run}, false)
	if err != nil {
		return c, run, err
	}
	jobs, err := l.Definitions.Get(ctx, []carillon.JobVersion{{Job: part.Run.Job, Version: part.Version}})
	if err != nil {
		return c, run, err
	}
	if len(runs) == 0 || runs[0].State.Ended() || jobs[0] == nil {
		return c, run, fmt.Errorf("%w: %s is a node of the workflow run %s, which has ended: resume that one",
			carillon.ErrConflict, of.ID, part.Run)
	}
	f := &flow{job: jobs[0], run: runs[0]}
	if f.progress, err = l.progress(ctx, w.Job.Namespace, part.Run); err != nil {
		return c, run, err
	}
	name := f.job.Target.Workflow.Nodes[part.Node].Name
	_, state, err := f.node(name)
	if err == nil {
		err = l.mayRetryPart(ctx, w, of, f.job.Target.Workflow.Nodes[part.Node].Map != "" && part.Item < 0)
	}
	if err != nil {
		return c, run, err
	}
	if c, run, err = retry(); err != nil || of.State == carillon.StateSucceeded {
		return c, run, err // what succeeded is repeated beside the workflow
	}
	if state != carillon.NodeFailed && state != carillon.NodeCanceled &&
		(part.Item < 0 || state != carillon.NodeActive) {
		return c, run, fmt.Errorf("%w: the node %s is %s already", carillon.ErrConflict, name, state)
	}
	for i := range c.Runs {
		if c.Runs[i].ID == run.ID {
			c.Runs[i].Flags |= carillon.FlagPart
		}
	}
	c.Folds = append(c.Folds, part.AgainOf(f.job, w.Job.ID))
	return c, run, nil
}

// mayRetryPart says why a run of a part cannot be retried: it is the record of a node with a list,
// another run of the part goes on, or a later one has ended. Otherwise one item would count for another.
func (l *Ledger) mayRetryPart(
	ctx context.Context, w *carillon.JobSnapshot, of *carillon.Run, listed bool,
) error {
	if listed {
		return fmt.Errorf("%w: %s is the record of a node with a list: retry the node, or single items",
			carillon.ErrConflict, of.ID)
	}
	page, err := l.cfg.Store.FindRuns(ctx, carillon.RunQuery{
		Namespace: w.Job.Namespace, Job: w.Job.ID, Limit: 1,
	})
	if err != nil {
		return err
	}
	if len(page.Runs) > 0 && page.Runs[0].ID != of.ID {
		return fmt.Errorf("%w: %s is a later run of the same node", carillon.ErrConflict, page.Runs[0].ID)
	}
	return nil
}

// ResumeRun adds a run of a workflow that goes on where one that did not succeed ended: nodes that succeeded
// are not begun again, and their results are used.
func (l *Ledger) ResumeRun(
	ctx context.Context, namespace string, id carillon.RunID,
) (carillon.Run, error) {
	_, run, err := l.updateJob(ctx, namespace, id.Job,
		func(w carillon.JobSnapshot, now carillon.Time) (c carillon.Change, run carillon.Run, err error) {
			if w.Job.Target.Workflow == nil {
				return c, run, fmt.Errorf("%w: %s is no run of a workflow", carillon.ErrConflict, id)
			}
			of, dead, err := l.ended(ctx, namespace, id)
			if err != nil {
				return c, run, err
			}
			p, err := l.progress(ctx, namespace, id)
			switch {
			case err != nil:
				return c, run, err
			case of.State == carillon.StateSucceeded:
				err = fmt.Errorf("%w: %s succeeded", carillon.ErrConflict, id)
			case of.Version != w.Job.Version:
				err = fmt.Errorf("%w: the workflow was edited since %s: retry it from the beginning",
					carillon.ErrConflict, id)
			case p == nil:
				err = fmt.Errorf("%w: %s has no progress to go on from: retry it from the beginning",
					carillon.ErrConflict, id)
			}
			if err != nil {
				return c, run, err
			}
			base, err := l.cfg.IDs.Block(now, p.Nodes())
			if err != nil {
				return c, run, err
			}
			if c, run, err = w.Retry(of, dead, now); err != nil {
				return c, run, err
			}
			guard, err := p.Resume(&run, base, now)
			c.Guards = append(slices.Clip(c.Guards), guard)
			return c, run, err
		})
	return run, err
}
