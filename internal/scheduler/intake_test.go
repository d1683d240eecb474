package scheduler_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
)

// left is an intake in memory.
type left struct {
	mu   sync.Mutex
	jobs []carillon.Submission
}

func (l *left) Submissions(context.Context, carillon.SubmissionQuery) ([]carillon.Submission, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.jobs), nil
}

func (l *left) Acknowledge(_ context.Context, admitted []carillon.JobID, _ []carillon.Submission) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.jobs = slices.DeleteFunc(l.jobs, func(s carillon.Submission) bool {
		return slices.Contains(admitted, s.ID)
	})
	return nil
}

// leftOne is an intake with one job, which is due in an hour.
func leftOne() *left {
	return &left{jobs: []carillon.Submission{{
		ID: 4711, Namespace: carillon.DefaultNamespace, At: carillon.Now(),
		Body: []byte(`{"type": "test", "target": {"handler": {}}, "schedule": {"after": "1h"}}`),
	}}}
}

// refusing is a store that writes nothing for a while.
type refusing struct {
	carillon.Store
	is atomic.Bool
}

func (r *refusing) Commit(ctx context.Context, changes []carillon.Change) ([]int, error) {
	if r.is.Load() {
		return nil, errors.New("no answer")
	}
	return r.Store.Commit(ctx, changes)
}

func TestAJobOfTheIntakeIsRemovedOnlyWhenItIsCommitted(t *testing.T) {
	intake := leftOne()
	store := &refusing{}
	in(t, func(h *house) {
		store.Store, h.intake = h.truth, intake
		h.store = store
		store.is.Store(true)
	}, func(h *house) {
		time.Sleep(10 * time.Second)
		if waiting, _ := intake.Submissions(t.Context(), carillon.SubmissionQuery{}); len(waiting) != 1 {
			t.Fatal("it was removed while no commit succeeded")
		}
		store.is.Store(false)
		time.Sleep(10 * time.Second)
		waiting, _ := intake.Submissions(t.Context(), carillon.SubmissionQuery{})
		jobs, err := h.truth.Jobs(t.Context(), []carillon.JobVersion{{Job: 4711, Version: 1}})
		if err != nil || len(jobs) != 1 || len(waiting) != 0 {
			t.Errorf("%d jobs, %v, %d submissions", len(jobs), err, len(waiting))
		}
	})
}

// deaf is an intake that takes no acknowledgement for a while.
type deaf struct {
	*left
	is atomic.Bool
}

func (d *deaf) Acknowledge(
	ctx context.Context, admitted []carillon.JobID, refused []carillon.Submission,
) error {
	if d.is.Load() {
		return errors.New("no answer")
	}
	return d.left.Acknowledge(ctx, admitted, refused)
}

func TestASubmissionThatIsReadAgainIsTheSameJob(t *testing.T) {
	intake := &deaf{left: leftOne()}
	intake.is.Store(true)
	in(t, func(h *house) { h.intake = intake }, func(h *house) {
		time.Sleep(10 * time.Second) // it is read four times a second
		intake.is.Store(false)
		time.Sleep(time.Second)
		waiting, _ := intake.Submissions(t.Context(), carillon.SubmissionQuery{})
		page, err := h.truth.FindJobs(t.Context(), carillon.JobQuery{Limit: 100})
		if err != nil || len(page.Jobs) != 1 || len(waiting) != 0 {
			t.Errorf("%d jobs, %v, %d submissions", len(page.Jobs), err, len(waiting))
		}
	})
}
