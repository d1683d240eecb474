package scheduler

import (
	"context"
	"errors"
	"fmt"
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
// it takes in a submission again that was taken in but not removed. The ledger knows that: the job exists
// already or, if the submission has a unique key, a guard says that it was decided. So nothing is done twice,
// and takeIn only removes the submission.
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
	var jobs []carillon.Job
	var taken, refused []carillon.Submission // taken: of jobs
	for _, submission := range left {
		def, err := define(&submission)
		if err != nil {
			submission.Reason = err.Error()
			refused = append(refused, submission)
			continue
		}
		jobs = append(jobs, carillon.Job{Namespace: submission.Namespace, ID: submission.ID, Definition: def})
		taken = append(taken, submission)
	}
	held, err := s.cfg.Ledger.TakeIn(ctx, jobs)
	if err != nil {
		return len(left), err
	}
	var admitted []carillon.JobID
	var stays error // of the first submission that stays: it holds up no others
	for _, submission := range taken {
		switch err := held[submission.ID]; {
		case err == nil:
			admitted = append(admitted, submission.ID)
		case errors.Is(err, carillon.ErrConflict) || errors.Is(err, carillon.ErrInvalid):
			submission.Reason = err.Error()
			refused = append(refused, submission)
		case stays == nil:
			stays = fmt.Errorf("%s: %w", submission.ID, err)
		}
	}
	return len(left), errors.Join(stays, s.cfg.Intake.Acknowledge(ctx, admitted, refused))
}

// define reads the definition of a job that an application left.
func define(s *carillon.Submission) (carillon.Definition, error) {
	if !carillon.IsNamespace(s.Namespace) {
		return carillon.Definition{}, &carillon.FieldError{
			Field: "namespace", Given: s.Namespace, Want: carillon.NamespaceForm,
		}
	}
	return jobjson.Define(s.Body, s.At)
}
