package mem

import (
	"bytes"
	"cmp"
	"context"
	"math"
	"slices"
	"strings"

	"github.com/carillon-run/carillon"
)

// Jobs implements carillon.Store.
func (s *Store) Jobs(ctx context.Context, ids []carillon.JobVersion) ([]carillon.Job, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []carillon.Job
	for _, id := range ids {
		j := s.jobs[id.Job]
		if j == nil {
			continue
		}
		job := j.Job
		if id.Version != 0 && id.Version != j.Version {
			older, kept := j.older[id.Version]
			if !kept {
				continue
			}
			job.Version, job.Definition = id.Version, older
		}
		job.Definition = cloneDefinition(job.Definition)
		found = append(found, job)
	}
	return found, nil
}

// Runs implements carillon.Store.
func (s *Store) Runs(ctx context.Context, ids []carillon.RunID, whole bool) ([]carillon.Run, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []carillon.Run
	for _, id := range ids {
		run, exists := s.run(id)
		if !exists {
			continue
		}
		if output, kept := s.outputs[id]; whole && kept {
			run.Output = &carillon.Output{
				Result: bytes.Clone(output.Result), Checkpoint: bytes.Clone(output.Checkpoint),
				Payload: bytes.Clone(output.Payload),
			}
		}
		found = append(found, run)
	}
	return found, nil
}

// run looks where a run can be: unfinished, in history, or, once history has forgotten it, among the dead
// letters.
func (s *Store) run(id carillon.RunID) (carillon.Run, bool) {
	if run, found := s.runs[id]; found {
		return s.withAbout(run), true
	}
	if r := cmp.Or(s.history.latest(id), s.dead.latest(id)); r != nil {
		return withOwnAbout(r.Run), true
	}
	return carillon.Run{}, false
}

// withAbout fills in About from the job, because an unfinished run does not repeat it.
func (s *Store) withAbout(run carillon.Run) carillon.Run {
	run.About = &carillon.About{}
	if j := s.jobs[run.ID.Job]; j != nil {
		*run.About = carillon.About{Name: j.Name, Type: j.Type, Owner: j.Owner}
	}
	return run
}

func withOwnAbout(run carillon.Run) carillon.Run {
	about := *run.About
	run.About = &about
	return run
}

// Attempts implements carillon.Store.
func (s *Store) Attempts(
	ctx context.Context, run carillon.RunID, after int32, limit int,
) ([]carillon.Attempt, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []carillon.Attempt
	for _, a := range s.attempts[run] {
		if a.Number > after && len(found) < cmp.Or(limit, carillon.DefaultLimit) {
			found = append(found, a)
		}
	}
	return found, nil
}

// Guards implements carillon.Store.
func (s *Store) Guards(ctx context.Context, q carillon.GuardQuery) ([]carillon.Guard, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []carillon.Guard
	take := func(g carillon.Guard) {
		g.Value = bytes.Clone(g.Value)
		found = append(found, g)
	}
	for _, key := range q.Keys {
		if g, exists := s.guards[guardKey{q.Namespace, key}]; exists {
			take(g)
		}
	}
	if len(q.Keys) > 0 {
		return found, nil
	}
	for key, g := range s.guards {
		if (q.Namespace == "" || key.namespace == q.Namespace) && strings.HasPrefix(key.key, q.Prefix) {
			take(g)
		}
	}
	slices.SortFunc(found, func(a, b carillon.Guard) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Key, b.Key))
	})
	return found, nil
}

// Wakes implements carillon.Store.
func (s *Store) Wakes(ctx context.Context, q carillon.WakeQuery) ([]carillon.Run, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	limit := cmp.Or(q.Limit, carillon.DefaultLimit)
	var found []carillon.Run
	for pos := range s.wakes.after(q.After) {
		if pos.Wake > q.Until || len(found) == limit {
			break
		}
		run := s.runs[pos.ID]
		if q.Wants(&run) {
			found = append(found, run)
		}
	}
	return found, nil
}

// unfinishedOf returns the unfinished runs of a job, latest due first.
func (s *Store) unfinishedOf(id carillon.JobID) []carillon.Run {
	of := s.ofJob[id]
	if of == nil {
		return nil
	}
	var runs []carillon.Run
	for due := range of.after(math.MinInt64) {
		runs = append(runs, s.runs[carillon.RunID{Job: id, Due: due}])
	}
	slices.Reverse(runs)
	return runs
}
