package chaos

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/chaos/check"
	"github.com/carillon-run/carillon/client"
	"github.com/carillon-run/carillon/executor"
)

const (
	lookers      = 4    // callers that ask how jobs are
	recentJobs   = 3000 // they ask about so many of the last jobs,
	newestJobs   = 300  // and every other time about so many
	mostAsks     = 6    // about a run that has not ended
	asksAfterEnd = 2    // more about one that has
)

// look asks nodes about some of the jobs of the last seconds, a few times about each, until the trial ends.
func (tr *trial) look(end <-chan struct{}) {
	var wg sync.WaitGroup
	for i := range lookers {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(tr.seed, uint64(10+i)))
			for {
				if run := tr.choose(rnd); !run.IsZero() {
					tr.lookAt(rnd, run, end)
				}
				select {
				case <-end:
					return
				case <-time.After(between(rnd, 0, 200*time.Millisecond)):
				}
			}
		})
	}
	wg.Wait()
}

// choose picks a run of a job that was accepted lately: its first one, or one that a caller has asked for.
func (tr *trial) choose(rnd *rand.Rand) (run carillon.RunID) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if added := lastOf(tr.added, newestJobs); rnd.IntN(4) == 0 && len(added) > 0 {
		return added[rnd.IntN(len(added))]
	}
	plans := lastOf(tr.plans, []int{recentJobs, newestJobs}[rnd.IntN(2)])
	if len(plans) == 0 {
		return run
	}
	if p := plans[rnd.IntN(len(plans))]; p.ID != 0 {
		run = carillon.RunID{Job: p.ID, Due: p.First}
	}
	return run
}

// lastOf are the last items of a list.
func lastOf[T any](list []T, most int) []T { return list[max(0, len(list)-most):] }

// lookAt asks about a run, and about its job, until some time after it has ended.
func (tr *trial) lookAt(rnd *rand.Rand, run carillon.RunID, end <-chan struct{}) {
	for open, ended := 0, 0; open < mostAsks && ended <= asksAfterEnd; {
		wait := between(rnd, 0, 500*time.Millisecond)
		if l, ok := tr.glance(run); ok && l.RunState.Ended() {
			ended++
			wait = 0 // a node that is behind would say so now
		} else {
			open++
		}
		if rnd.IntN(2) == 0 {
			tr.glance(carillon.RunID{Job: run.Job})
		}
		select {
		case <-end:
			return
		case <-time.After(wait):
		}
	}
}

// glance asks any node about a run, or about a job, and keeps what it says.
func (tr *trial) glance(run carillon.RunID) (l check.Look, ok bool) {
	api, url, err := tr.anyNode()
	if err != nil {
		return l, false
	}
	l = check.Look{Node: url, Run: run, Asked: executor.Boottime()}
	if run.Due == 0 {
		err = lookAtJob(tr.ctx, api, &l)
	} else {
		err = lookAtRun(tr.ctx, api, &l)
	}
	l.Answered = executor.Boottime()
	var problem *client.Problem
	if errors.As(err, &problem) && problem.Status == http.StatusNotFound {
		err = nil
	}
	if err != nil {
		return l, false
	}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.looks = append(tr.looks, l)
	return l, true
}

func lookAtJob(ctx context.Context, api *client.Client, l *check.Look) error {
	job, err := api.Job(ctx, l.Run.Job)
	l.JobState, l.Version = job.State, job.Version
	return err
}

func lookAtRun(ctx context.Context, api *client.Client, l *check.Look) error {
	run, err := api.Run(ctx, l.Run)
	l.RunState, l.Reason = run.State, run.Reason
	l.Attempt, l.Failures, l.Losses = run.Attempt, run.Failures, run.Losses
	return err
}
