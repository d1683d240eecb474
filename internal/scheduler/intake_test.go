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
	"github.com/carillon-run/carillon/internal/catalog"
)

// left is an intake in memory.
type left struct {
	mu      sync.Mutex
	jobs    []carillon.Submission
	refused []carillon.Submission
}

func (l *left) Submissions(context.Context, carillon.SubmissionQuery) ([]carillon.Submission, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.jobs), nil
}

func (l *left) Acknowledge(
	_ context.Context, admitted []carillon.JobID, refused []carillon.Submission,
) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.jobs = slices.DeleteFunc(l.jobs, func(s carillon.Submission) bool {
		return slices.Contains(admitted, s.ID) ||
			slices.ContainsFunc(refused, func(r carillon.Submission) bool { return r.ID == s.ID })
	})
	l.refused = append(l.refused, refused...)
	return nil
}

// leftOne is an intake with one job, which is due in an hour.
func leftOne() *left {
	return &left{jobs: []carillon.Submission{{
		ID: 4711, Namespace: carillon.DefaultNamespace, At: carillon.Now(),
		Body: []byte(`{"type": "test", "target": {"handler": {}}, "schedule": {"after": "1h"}}`),
	}}}
}

func TestAJobOfTheIntakeWhoseUniqueKeyIsHeldIsRefused(t *testing.T) {
	intake := &left{}
	for i, on := range []string{"return", "refuse", "return"} {
		intake.jobs = append(intake.jobs, carillon.Submission{
			ID: carillon.JobID(4711 + i), Namespace: carillon.DefaultNamespace, At: carillon.Now(),
			Body: []byte(`{"type": "test", "target": {"handler": {}}, "schedule": {"after": "1h"},
				"unique": {"key": "k", "on_conflict": "` + on + `"}}`),
		})
	}
	in(t, func(h *house) { h.intake = intake }, func(h *house) {
		time.Sleep(time.Second)
		intake.mu.Lock()
		defer intake.mu.Unlock()
		reason := "conflict: " + carillon.JobID(4711).String() + " holds the unique key k until it has ended"
		if len(intake.jobs) != 0 || len(intake.refused) != 1 || intake.refused[0].ID != 4712 ||
			intake.refused[0].Reason != reason {
			t.Errorf("%d wait, refused: %+v", len(intake.jobs), intake.refused)
		}
		jobs, err := h.truth.Jobs(t.Context(), []carillon.JobVersion{{Job: 4711}, {Job: 4712}, {Job: 4713}})
		if err != nil || len(jobs) != 1 || jobs[0].ID != 4711 {
			t.Errorf("%d jobs, %v", len(jobs), err)
		}
	})
}

func TestAJobOfTheIntakeForANamespaceThatNoCallerCanHaveIsRefused(t *testing.T) {
	intake := leftOne()
	for _, namespace := range []string{carillon.SystemNamespace, catalog.Space, "sales"} {
		next := intake.jobs[0]
		next.ID, next.Namespace = next.ID+carillon.JobID(len(intake.jobs)), namespace
		intake.jobs = append(intake.jobs, next)
	}
	in(t, func(h *house) { h.intake = intake }, func(*house) {
		time.Sleep(time.Second)
		intake.mu.Lock()
		defer intake.mu.Unlock()
		var refused []string
		for _, s := range intake.refused {
			refused = append(refused, s.Reason)
		}
		want := []string{
			`namespace: "system" is not valid: want ` + carillon.NamespaceForm,
			`namespace: "/catalog" is not valid: want ` + carillon.NamespaceForm,
		}
		if len(intake.jobs) != 0 || !slices.Equal(refused, want) {
			t.Errorf("%d wait, refused: %q", len(intake.jobs), refused)
		}
	})
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

// unread is a store that cannot read the guard of a unique key for a while.
type unread struct {
	carillon.Store
	is atomic.Bool
}

func (u *unread) Guards(ctx context.Context, q carillon.GuardQuery) ([]carillon.Guard, error) {
	if u.is.Load() && slices.Contains(q.Keys, "unique/k") {
		return nil, errors.New("no answer")
	}
	return u.Store.Guards(ctx, q)
}

func TestASubmissionThatCannotBeDecidedHoldsUpNoOthers(t *testing.T) {
	intake, store := leftOne(), &unread{}
	for _, id := range []carillon.JobID{1, 2} { // the second one finds that the first one holds the key
		intake.jobs = append(intake.jobs, carillon.Submission{
			ID: id, Namespace: carillon.DefaultNamespace, At: carillon.Now(),
			Body: []byte(`{"type": "test", "target": {"handler": {}}, "schedule": {"after": "1h"},
				"unique": {"key": "k"}}`),
		})
	}
	store.is.Store(true)
	in(t, func(h *house) {
		store.Store, h.intake = h.truth, intake
		h.store = store
	}, func(h *house) {
		time.Sleep(10 * time.Second)
		waiting, _ := intake.Submissions(t.Context(), carillon.SubmissionQuery{})
		if len(waiting) != 1 || waiting[0].ID != 2 || len(intake.refused) > 0 {
			t.Errorf("%d wait, refused: %+v", len(waiting), intake.refused)
		}
		store.is.Store(false)
		time.Sleep(time.Second)
		waiting, _ = intake.Submissions(t.Context(), carillon.SubmissionQuery{})
		page, err := h.truth.FindJobs(t.Context(), carillon.JobQuery{Limit: 100})
		if err != nil || len(page.Jobs) != 2 || len(waiting) != 0 {
			t.Errorf("%d jobs, %v, %d submissions", len(page.Jobs), err, len(waiting))
		}
	})
}
