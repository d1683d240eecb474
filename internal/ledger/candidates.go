package ledger

import (
	"context"

	"github.com/carillon-run/carillon"
)

// Candidates returns the runs as candidates, each with what a decision about it needs: the definition and, if
// the run is guarded, the guard and, where needed, the other runs of the job. It leaves out runs whose job is
// gone and waiting runs on hold.
func (l *Ledger) Candidates(
	ctx context.Context, runs []carillon.Run, worker string,
) ([]carillon.Candidate, error) {
	ids := make([]carillon.JobVersion, len(runs))
	for i := range runs {
		ids[i] = runs[i].Definition()
	}
	jobs, err := l.Definitions.Get(ctx, ids)
	if err != nil {
		return nil, err
	}
	guards, err := l.guards(ctx, runs)
	if err != nil {
		return nil, err
	}
	candidates := make([]carillon.Candidate, 0, len(runs))
	for i := range runs {
		candidate := carillon.Candidate{Job: jobs[i], Run: runs[i], Worker: worker}
		if candidate.Job == nil ||
			runs[i].State == carillon.StateWaiting && runs[i].Has(carillon.FlagOnHold) {
			continue
		}
		if runs[i].Has(carillon.FlagGuarded) {
			candidate.Guards = withOverlap(guards[runs[i].ID.Job], candidate.Job)
		}
		if candidate.NeedsOthers() {
			snapshot, err := l.Snapshot(ctx, candidate.Job.Namespace, candidate.Job.ID)
			if err != nil {
				return nil, err
			}
			candidate.Others, candidate.Guards = snapshot.Runs, withOverlap(snapshot.Guards, candidate.Job)
		}
		candidates = append(candidates, candidate)
	}
	return candidates, nil
}

// withOverlap adds an overlap guard if there is none: then no run has the turn.
func withOverlap(guards carillon.Guards, job *carillon.Job) carillon.Guards {
	if guards.Of(carillon.GuardOverlap) != nil {
		return guards
	}
	return guards.With(carillon.NewOverlapGuard(job))
}

// guards reads the overlap guards of the runs that have one.
func (l *Ledger) guards(
	ctx context.Context, runs []carillon.Run,
) (map[carillon.JobID]carillon.Guards, error) {
	keys := map[string][]string{} // by namespace
	jobs := map[string]carillon.JobID{}
	for i := range runs {
		if runs[i].Has(carillon.FlagGuarded) {
			key := carillon.OverlapKey(runs[i].ID.Job)
			keys[runs[i].Namespace] = append(keys[runs[i].Namespace], key)
			jobs[key] = runs[i].ID.Job
		}
	}
	found := map[carillon.JobID]carillon.Guards{}
	for namespace, keys := range keys {
		guards, err := l.cfg.Store.Guards(ctx, carillon.GuardQuery{Namespace: namespace, Keys: keys})
		if err != nil {
			return nil, err
		}
		for i := range guards {
			found[jobs[guards[i].Key]] = guards[i : i+1 : i+1]
		}
	}
	return found, nil
}

// Finish reads a run and applies an outcome to its attempt. If the attempt no longer holds the run, Finish
// changes nothing and returns ErrLost: the writer that took the run away has recorded how the attempt ended.
func (l *Ledger) Finish(
	ctx context.Context, id carillon.RunID, attempt int32, o carillon.Outcome, random float64,
) error {
	for range maxTries {
		runs, err := l.cfg.Store.Runs(ctx, []carillon.RunID{id}, false)
		if err != nil {
			return err
		}
		if len(runs) == 0 || !runs[0].State.Held() || runs[0].Attempt != attempt {
			return carillon.ErrLost
		}
		candidates, err := l.Candidates(ctx, runs, "")
		if err != nil {
			return err
		}
		if len(candidates) == 0 {
			return carillon.ErrNotFound
		}
		run := runs[0].Finish(candidates[0].Job, o, carillon.Now(), random)
		lost, err := l.Commit(ctx, []carillon.Change{carillon.EndChange(run, candidates[0].Guards)})
		if err != nil || len(lost) == 0 {
			return err
		}
	}
	return errTooBusy
}
