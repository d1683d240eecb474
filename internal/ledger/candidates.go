package ledger

import (
	"context"
	"maps"
	"slices"

	"github.com/carillon-run/carillon"
)

// Candidates returns the runs as candidates, each with what a decision about it needs: the definition and, if
// the run is guarded, the guard and, where needed, the other runs of the job. It reads each of the three once
// for all candidates. It leaves out runs whose job is gone and waiting runs on hold.
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
		candidates = append(candidates, candidate)
	}
	return candidates, l.addOthers(ctx, candidates)
}

// addOthers reads the other runs on which decisions depend.
func (l *Ledger) addOthers(ctx context.Context, candidates []carillon.Candidate) error {
	var needs map[int][]carillon.RunID // by the index of the candidate
	var unfinished map[carillon.RunID]*carillon.Run
	for i := range candidates {
		if ids := candidates[i].NeedsOthers(); len(ids) > 0 {
			if needs == nil {
				needs, unfinished = map[int][]carillon.RunID{}, map[carillon.RunID]*carillon.Run{}
			}
			needs[i] = ids
			for _, id := range ids {
				unfinished[id] = nil
			}
		}
	}
	if needs == nil {
		return nil
	}
	runs, err := l.cfg.Store.Runs(ctx, slices.Collect(maps.Keys(unfinished)), false)
	if err != nil {
		return err
	}
	for i := range runs {
		if !runs[i].State.Ended() {
			unfinished[runs[i].ID] = &runs[i]
		}
	}
	for i, ids := range needs {
		for _, id := range ids {
			if run := unfinished[id]; run != nil {
				candidates[i].Others = append(candidates[i].Others, *run)
			}
		}
	}
	return nil
}

// withOverlap adds an overlap guard if there is none: then no run has the turn.
func withOverlap(guards carillon.Guards, job *carillon.Job) carillon.Guards {
	if guards.Of(carillon.GuardOverlap) != nil {
		return guards
	}
	return guards.With(job.OverlapGuard())
}

// guards reads the overlap guards of the runs that have one.
func (l *Ledger) guards(
	ctx context.Context, runs []carillon.Run,
) (map[carillon.JobID]carillon.Guards, error) {
	keys := map[string][]string{} // by namespace
	jobs := map[string]carillon.JobID{}
	for i := range runs {
		if runs[i].Has(carillon.FlagGuarded) {
			key := runs[i].ID.Job.OverlapKey()
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
