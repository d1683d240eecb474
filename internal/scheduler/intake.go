package scheduler

import (
	"context"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/await"
	"github.com/carillon-run/carillon/internal/jobjson"
)

const (
	intakeEvery = 250 * time.Millisecond
	intakeBatch = 500
)

// takeIn takes in the jobs that applications have left inside their own database transactions. After a crash
// it admits a submission again that was admitted but not removed: its job then exists already, and admit only
// removes the submission.
func (s *Scheduler) takeIn(ctx context.Context) error {
	if s.cfg.Intake == nil {
		return nil
	}
	failing := false // logged once, not four times a second
	for wait := intakeEvery; await.For(ctx, wait); {
		n, err := s.takeInPage(ctx)
		if err != nil && !failing && ctx.Err() == nil {
			s.cfg.Logger.Error("admit submitted jobs: trying again", "error", err)
		}
		failing = err != nil
		if wait = intakeEvery; err == nil && n == intakeBatch {
			wait = time.Millisecond
		}
	}
	return nil
}

func (s *Scheduler) takeInPage(ctx context.Context) (int, error) {
	left, err := s.cfg.Intake.Submissions(ctx, carillon.SubmissionQuery{
		Shards: s.members.shards(), Limit: intakeBatch,
	})
	if err != nil || len(left) == 0 {
		return 0, err
	}
	now := s.cfg.Clock.Now()
	var changes []carillon.Change
	var admitted []carillon.JobID
	var refused []carillon.Submission
	for _, submission := range left {
		def, err := jobjson.Define(submission.Body, submission.At)
		if err != nil {
			submission.Reason = err.Error()
			refused = append(refused, submission)
			continue
		}
		job := carillon.Job{Namespace: submission.Namespace, ID: submission.ID, Definition: def}
		changes = append(changes, carillon.Submit(&job, now))
		admitted = append(admitted, submission.ID)
	}
	if _, err := s.cfg.Ledger.Commit(ctx, changes); err != nil { // a job that lost exists already
		return len(left), err
	}
	return len(left), s.cfg.Intake.Acknowledge(ctx, admitted, refused)
}
