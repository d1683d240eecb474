package ledger

import (
	"context"
	"maps"
	"slices"

	"github.com/carillon-run/carillon"
)

// Candidates returns the runs as candidates, each with what a decision about it needs: the definition and, if
// the run is guarded, the guard and, where needed, the other runs of the job. Without a worker it also reads
// the guards of limits; a claim folds them. It reads each of these once for all candidates. It leaves out
// runs whose job is gone and waiting runs on hold.
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
		candidate.Limits = l.limitsOf(candidate.Job)
		l.addGates(&candidate)
		if runs[i].Has(carillon.FlagGuarded) {
			candidate.Guards = withOverlap(guards[runs[i].ID.Job], candidate.Job)
		}
		candidates = append(candidates, candidate)
	}
	if worker == "" {
		if err := l.addCounters(ctx, candidates); err != nil {
			return nil, err
		}
	}
	return candidates, l.addOthers(ctx, candidates)
}

// UseLimits adds limits that operators set to those of jobs: limits returns both. The ledger calls it for
// every claim, so it must be quick. Call it before Run.
func (l *Ledger) UseLimits(limits func(*carillon.Job) []carillon.Limit) { l.limits = limits }

func (l *Ledger) limitsOf(job *carillon.Job) []carillon.Limit {
	if job.Target.Workflow != nil || job.Target.Wait != nil {
		return nil // limits are for what workers perform
	}
	if l.limits == nil {
		return job.Limits
	}
	return l.limits(job)
}

// Gates are the gates that this node knows. The ledger asks them for every claim, so they must be quick.
type Gates interface {
	// ClosedFor is the oldest gate that is closed and matches a job; nil: none.
	ClosedFor(job *carillon.Job, clock *carillon.Clock) *carillon.Gate
	// GateOf is a gate by its id, closed or opening; nil: there is none.
	GateOf(namespace, id string) *carillon.Gate
}

// UseGates lets closed gates decide. Call it before Run.
func (l *Ledger) UseGates(gates Gates) { l.gates = gates }

func (l *Ledger) closedFor(job *carillon.Job) *carillon.Gate {
	if l.gates == nil {
		return nil
	}
	return l.gates.ClosedFor(job, l.cfg.Clock)
}

// addGates adds the gates that decide about a run.
func (l *Ledger) addGates(c *carillon.Candidate) {
	if l.gates == nil || c.Run.State != carillon.StateWaiting {
		return
	}
	c.Gate = l.gates.ClosedFor(c.Job, l.cfg.Clock)
	if id, is := carillon.GateOfHold(c.Run.Hold); is {
		c.Line = l.gates.GateOf(c.Run.Namespace, id)
	}
}

// addCounters reads the guards of the limits of waiting runs.
func (l *Ledger) addCounters(ctx context.Context, candidates []carillon.Candidate) error {
	var counters map[guardKey]*carillon.Guard
	each := func(do func(c *carillon.Candidate, key guardKey)) {
		for i := range candidates {
			if c := &candidates[i]; c.Run.State == carillon.StateWaiting {
				for k := range c.Limits {
					do(c, guardKey{c.Run.Namespace, c.Limits[k].Hold()})
				}
			}
		}
	}
	each(func(_ *carillon.Candidate, key guardKey) {
		if counters == nil {
			counters = map[guardKey]*carillon.Guard{}
		}
		counters[key] = nil
	})
	if counters == nil {
		return nil
	}
	if err := l.readGuards(ctx, maps.Keys(counters), func(g carillon.Guard) {
		counters[guardKey{g.Namespace, g.Key}] = &g
	}); err != nil {
		return err
	}
	each(func(c *carillon.Candidate, key guardKey) {
		if guard := counters[key]; guard != nil {
			c.Counters = append(c.Counters, *guard)
		}
	})
	return nil
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
