package ledger_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/ledger"
)

// left is a job that an application has left with its id.
func left(t *testing.T, id carillon.JobID, edit func(*carillon.Definition)) carillon.Job {
	t.Helper()
	return carillon.Job{Namespace: "default", ID: id, Definition: define(t, edit)}
}

func takeIn(t *testing.T, l *ledger.Ledger, jobs ...carillon.Job) map[carillon.JobID]error {
	t.Helper()
	failed, err := l.TakeIn(t.Context(), jobs)
	if err != nil {
		t.Fatal(err)
	}
	return failed
}

func TestJobsThatAreTakenInPassTheSameRule(t *testing.T) {
	s := newStore()
	within(t, ledger.Config{Store: s}, func(t *testing.T, l *ledger.Ledger) {
		there := submit(t, l, unique("k", "", named("there")))
		refused := takeIn(
			t, l,
			left(t, 11, nil), left(t, 12, unique("k", carillon.ConflictRefuse)), left(t, 13, unique("new", "")),
			left(t, 14, unique("new", carillon.ConflictRefuse)), left(t, 15, unique("k", carillon.ConflictReturn)),
			left(t, 16, unique("k", carillon.ConflictReplace, named("replaced"))),
			left(t, 17, unique("k", carillon.ConflictReplace, every(time.Minute, ""), func(d *carillon.Definition) {
				d.Schedule.After = 0
			})),
		)
		if len(refused) != 3 || !errors.Is(refused[12], carillon.ErrConflict) ||
			!errors.Is(refused[14], carillon.ErrConflict) || !errors.Is(refused[17], carillon.ErrInvalid) {
			t.Errorf("refused: %v", refused)
		}
		stored, err := s.Jobs(t.Context(), []carillon.JobVersion{
			{Job: there.ID}, {Job: 11}, {Job: 12}, {Job: 13}, {Job: 14}, {Job: 15}, {Job: 16}, {Job: 17},
		})
		if err != nil || len(stored) != 3 {
			t.Fatalf("%d jobs are stored, %v", len(stored), err)
		}
		for _, job := range stored {
			if job.ID == there.ID && job.Name != "replaced" {
				t.Errorf("%s is not replaced", job.Name)
			}
		}
		// The node stopped before it could say that it has taken them in.
		if refused := takeIn(
			t, l, left(t, 11, nil), left(t, 13, unique("new", carillon.ConflictRefuse)),
		); len(refused) > 0 {
			t.Errorf("taken in again: %v", refused)
		}
	})
}

// The node stops each time before it can say that it has taken them in.
func TestAJobThatIsTakenInAgainIsDecidedOnce(t *testing.T) {
	s := newStore()
	within(t, ledger.Config{Store: s}, func(t *testing.T, l *ledger.Ledger) {
		ended := submit(t, l, unique("ended", ""))
		moved := submit(t, l, unique("moved", ""))
		again := func() map[carillon.JobID]error {
			return takeIn(t, l, left(t, 11, unique("ended", "")),
				left(t, 12, unique("moved", carillon.ConflictReplace, named("older"))),
				left(t, 13, unique("new", "")))
		}
		if failed := again(); len(failed) > 0 {
			t.Fatal(failed)
		}
		if _, err := l.CancelJob(t.Context(), "default", ended.ID, false); err != nil {
			t.Fatal(err)
		}
		newer := submit(t, l, unique("moved", carillon.ConflictReplace, named("newer"), func(
			d *carillon.Definition,
		) {
			d.Schedule.After = carillon.Duration(24 * time.Hour)
		}))
		before := jobs(t, s)
		// The second time Forget has removed the guard of the key whose job has ended.
		for range 2 {
			if failed := again(); len(failed) > 0 {
				t.Error(failed)
			}
			time.Sleep(3 * time.Hour)
			if _, err := s.Forget(t.Context(), carillon.Retention{}, carillon.Now(), 100); err != nil {
				t.Fatal(err)
			}
		}
		if n := jobs(t, s); n != before {
			t.Errorf("%d jobs, then %d", before, n)
		}
		stored, err := s.Jobs(t.Context(), []carillon.JobVersion{{Job: moved.ID}})
		if err != nil || len(stored) != 1 || stored[0].Version != newer.Version || stored[0].Name != "newer" {
			t.Errorf("%+v, %v", stored, err)
		}
	})
}

// unread is a store that cannot read one guard.
type unread struct {
	*store
	key string
}

func (u *unread) Guards(ctx context.Context, q carillon.GuardQuery) ([]carillon.Guard, error) {
	if len(q.Keys) > 0 && q.Keys[0] == u.key {
		return nil, errors.New("no answer")
	}
	return u.store.Guards(ctx, q)
}

func TestAJobThatCannotBeTakenInNowHoldsUpOnlyThoseWithItsKey(t *testing.T) {
	s := &unread{store: newStore()}
	within(t, ledger.Config{Store: s}, func(t *testing.T, l *ledger.Ledger) {
		submit(t, l, unique("a", "", named("first")))
		submit(t, l, unique("b", "", named("first")))
		page := func() map[carillon.JobID]error {
			return takeIn(t, l, left(t, 11, unique("a", carillon.ConflictReplace, named("older"))),
				left(t, 12, unique("b", carillon.ConflictRefuse)),
				left(t, 13, unique("a", carillon.ConflictReplace, named("newer"))), left(t, 14, nil))
		}
		expect := func(failed map[carillon.JobID]error, n int, name string) {
			t.Helper()
			if len(failed) != n || !errors.Is(failed[12], carillon.ErrConflict) {
				t.Errorf("failed: %v", failed)
			}
			if got := submit(t, l, unique("a", carillon.ConflictReturn)); got.Name != name {
				t.Errorf("the job is the %s one", got.Name)
			}
		}
		def := define(t, unique("a", ""))
		s.key = def.UniqueKey()
		failed := page()
		s.key = ""
		expect(failed, 3, "first")
		expect(page(), 1, "newer")
	})
}
