package mem

import (
	"cmp"
	"context"
	"iter"
	"math"
	"slices"

	"github.com/carillon-run/carillon"
)

// FindJobs implements carillon.Store.
func (s *Store) FindJobs(ctx context.Context, q carillon.JobQuery) (carillon.JobPage, error) {
	if err := ctx.Err(); err != nil {
		return carillon.JobPage{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	limit := cmp.Or(q.Limit, carillon.DefaultLimit)
	var page carillon.JobPage
	for id := range s.ids.before(cmp.Or(q.Before, math.MaxInt64)) {
		job, wanted := s.wanted(&q, id)
		if !wanted {
			continue
		}
		if len(page.Jobs) == limit {
			page.Next = page.Jobs[limit-1].ID
			break
		}
		page.Jobs = append(page.Jobs, job)
		if q.WithLast {
			page.Last = append(page.Last, carillon.LastOf(s.unfinishedOf(id), s.lastBegun(id)))
		}
	}
	return page, nil
}

func (s *Store) wanted(q *carillon.JobQuery, id carillon.JobID) (carillon.Job, bool) {
	job := s.jobs[id].Job
	unfinished := s.unfinishedOf(id)
	job.State = job.StateOf(unfinished)
	if !q.Wants(&job) || len(q.States) > 0 && !slices.Contains(q.States, job.State) {
		return job, false
	}
	if len(q.Latest) > 0 && !slices.Contains(q.Latest, carillon.LatestOf(unfinished, s.lastBegun(id))) {
		return job, false
	}
	job.Definition = cloneDefinition(job.Definition)
	return job, true
}

// lastBegun returns the ended run with the latest due time among the runs of a job that had begun.
func (s *Store) lastBegun(id carillon.JobID) *carillon.Run {
	for r := range s.history.jobBefore(id, dueAt{math.MaxInt64, math.MaxInt64}) {
		if r.Attempt > 0 {
			return &r.Run
		}
	}
	return nil
}

// FindRuns implements carillon.Store.
func (s *Store) FindRuns(ctx context.Context, q carillon.RunQuery) (carillon.RunPage, error) {
	if err := ctx.Err(); err != nil {
		return carillon.RunPage{}, err
	}
	start, err := q.Start()
	if err != nil {
		return carillon.RunPage{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	limit := cmp.Or(q.Limit, carillon.DefaultLimit)
	var page carillon.RunPage
	var reached carillon.RunPos
	for pos, run := range s.runsAfter(&q, start) {
		if !q.Wants(&run) || !s.labeled(&q, run.ID.Job) {
			continue
		}
		if len(page.Runs) == limit {
			page.Next = reached.String()
			break
		}
		page.Runs, reached = append(page.Runs, run), pos
	}
	return page, nil
}

// labeled says whether a job has the labels of a query for dead letters.
func (s *Store) labeled(q *carillon.RunQuery, id carillon.JobID) bool {
	if !q.Dead || len(q.Labels) == 0 {
		return true
	}
	job := s.jobs[id]
	return job != nil && !slices.ContainsFunc(q.Labels, func(l carillon.Label) bool {
		value, has := job.Labels[l.Key]
		return !has || value != l.Value
	})
}

// runsAfter yields all runs that a query can choose from, in its order.
func (s *Store) runsAfter(
	q *carillon.RunQuery, start carillon.RunPos,
) iter.Seq2[carillon.RunPos, carillon.Run] {
	switch start.Part {
	case carillon.RunPartDead:
		return records(&s.dead, start)
	case carillon.RunPartJob:
		return s.runsOfJob(q.Job, start)
	case carillon.RunPartEnded:
		return records(&s.history, start)
	}
	return func(yield func(carillon.RunPos, carillon.Run) bool) {
		for id := range s.dues.after(carillon.RunID{Job: start.Job, Due: start.Due}) {
			pos := carillon.RunPos{Part: carillon.RunPartUnfinished, Due: id.Due, Job: id.Job}
			if !yield(pos, s.withAbout(s.runs[id])) {
				return
			}
		}
		for pos, run := range records(&s.history, carillon.RunPos{
			Part: carillon.RunPartEnded, Place: carillon.Unended,
		}) {
			if !yield(pos, run) {
				return
			}
		}
	}
}

func records(t *table, start carillon.RunPos) iter.Seq2[carillon.RunPos, carillon.Run] {
	return func(yield func(carillon.RunPos, carillon.Run) bool) {
		for r := range t.before(start.Place) {
			if !yield(carillon.RunPos{Part: start.Part, Place: r.place}, withOwnAbout(r.Run)) {
				return
			}
		}
	}
}

// runsOfJob merges the unfinished runs of a job with its history, latest due first.
func (s *Store) runsOfJob(id carillon.JobID, start carillon.RunPos) iter.Seq2[carillon.RunPos, carillon.Run] {
	return func(yield func(carillon.RunPos, carillon.Run) bool) {
		unfinished := s.unfinishedOf(id)
		first := func() carillon.RunPos {
			return carillon.RunPos{
				Part: carillon.RunPartJob, Due: unfinished[0].ID.Due, Place: carillon.Unended,
			}
		}
		for len(unfinished) > 0 && first().Due >= start.Due { // an earlier page had them
			unfinished = unfinished[1:]
		}
		for r := range s.history.jobBefore(id, dueAt{start.Due, start.Place}) {
			for len(unfinished) > 0 && unfinished[0].ID.Due >= r.ID.Due {
				if !yield(first(), s.withAbout(unfinished[0])) {
					return
				}
				unfinished = unfinished[1:]
			}
			pos := carillon.RunPos{Part: carillon.RunPartJob, Due: r.ID.Due, Place: r.place}
			if !yield(pos, withOwnAbout(r.Run)) {
				return
			}
		}
		for len(unfinished) > 0 {
			if !yield(first(), s.withAbout(unfinished[0])) {
				return
			}
			unfinished = unfinished[1:]
		}
	}
}
