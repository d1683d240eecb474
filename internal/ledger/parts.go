package ledger

import (
	"context"
	"fmt"
	"slices"

	"github.com/carillon-run/carillon"
)

// follow completes changes with what follows them: hooks, and the nodes of workflows.
func (l *Ledger) follow(ctx context.Context, changes []carillon.Change) ([]carillon.Change, error) {
	if err := l.nameHooks(changes); err != nil {
		return nil, err
	}
	return l.foldParts(ctx, changes)
}

// foldParts turns the ends of parts of workflows into folds of their progress. It returns the changes as they
// are if none of them ends a part.
func (l *Ledger) foldParts(ctx context.Context, changes []carillon.Change) ([]carillon.Change, error) {
	first := -1
	for i := range changes { // by index: every commit asks, and a change is large
		if len(changes[i].Parts) > 0 {
			first = i
			break
		}
	}
	if first < 0 {
		return changes, nil
	}
	var ids []carillon.JobVersion
	of := map[carillon.JobVersion]*carillon.Job{}
	for i := first; i < len(changes); i++ {
		for _, end := range changes[i].Parts {
			id := carillon.JobVersion{Job: end.Run.Job, Version: end.Version}
			if _, known := of[id]; !known {
				of[id] = nil
				ids = append(ids, id)
			}
		}
	}
	jobs, err := l.Definitions.Get(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("read the workflows of nodes that ended: %w", err)
	}
	for i, id := range ids {
		of[id] = jobs[i]
	}
	for i := first; i < len(changes); i++ {
		c := &changes[i]
		folds := slices.Clip(c.Folds)
		for k := range c.Parts {
			end := &c.Parts[k]
			workflow := of[carillon.JobVersion{Job: end.Run.Job, Version: end.Version}]
			if workflow == nil || workflow.Target.Workflow == nil || workflow.Namespace != end.Namespace {
				if err := l.mayForget(ctx, end); err != nil {
					return nil, err
				}
				continue
			}
			folds = append(folds, end.EndOf(workflow))
		}
		c.Folds, c.Parts = folds, nil
	}
	return changes, nil
}

// mayForget returns an error if the run of a workflow goes on whose definition was not found: without its
// step the end of a node would be lost. If the run has ended, nothing follows.
func (l *Ledger) mayForget(ctx context.Context, end *carillon.PartEnd) error {
	runs, err := l.cfg.Store.Runs(ctx, []carillon.RunID{end.Run}, false)
	if err == nil && len(runs) > 0 && !runs[0].State.Ended() {
		err = fmt.Errorf("the definition %d of the workflow of %s is missing", end.Version, end.Run)
	}
	return err
}
