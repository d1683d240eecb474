package scheduler

import (
	"context"
	"errors"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/await"
)

// noteFailure has the pause loop look at the job of a run that has failed for good, if it has pause_after.
func (s *Scheduler) noteFailure(run *carillon.Run) {
	if run.State == carillon.StateFailed && run.Has(carillon.FlagPauseAfter) {
		s.failing.add(jobName{run.Namespace, run.ID.Job})
	}
}

type jobName struct {
	namespace string
	id        carillon.JobID
}

// recentFailures is how many dead letters a node looks at when it starts.
const recentFailures = 1000

// pauseFailing pauses jobs whose last runs have all failed. The runs themselves are counted, so a failure
// that no node has looked at, because the node died after the commit, is seen with the next failure of the
// job, or when a node starts.
func (s *Scheduler) pauseFailing(ctx context.Context) error {
	for ctx.Err() == nil {
		err := s.findFailing(ctx)
		if err == nil {
			break
		}
		s.pauseFailed(ctx, "look for jobs whose runs fail", err)
	}
	for {
		select {
		case <-s.failing.ready:
		case <-ctx.Done():
			return nil
		}
		seen := map[jobName]bool{}
		for _, job := range s.failing.take() {
			if seen[job] {
				continue
			}
			seen[job] = true
			_, err := s.cfg.Ledger.PauseFailing(ctx, job.namespace, job.id)
			if err == nil || errors.Is(err, carillon.ErrNotFound) {
				continue
			}
			s.failing.add(job)
			s.pauseFailed(ctx, "look whether the runs of a job fail", err)
		}
	}
}

// findFailing has the loop look at the jobs of the latest dead letters.
func (s *Scheduler) findFailing(ctx context.Context) error {
	letters, err := s.cfg.Store.FindRuns(ctx, carillon.RunQuery{Dead: true, Limit: recentFailures})
	if err != nil {
		return err
	}
	asked := map[carillon.JobVersion]bool{}
	var ids []carillon.JobVersion
	for i := range letters.Runs {
		if id := (carillon.JobVersion{Job: letters.Runs[i].ID.Job}); !asked[id] {
			asked[id] = true
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	jobs, err := s.cfg.Store.Jobs(ctx, ids)
	for i := range jobs {
		if jobs[i].PauseAfter > 0 && jobs[i].State == carillon.JobActive {
			s.failing.add(jobName{jobs[i].Namespace, jobs[i].ID})
		}
	}
	return err
}

func (s *Scheduler) pauseFailed(ctx context.Context, what string, err error) {
	if ctx.Err() == nil {
		s.cfg.Logger.Error(what, "error", err)
		await.For(ctx, retryWait)
	}
}
