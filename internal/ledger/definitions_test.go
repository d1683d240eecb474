package ledger_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/ledger"
)

func TestDefinitionsAreReadOnceIfTheyAreNeededAgain(t *testing.T) {
	s := newStore()
	within(t, ledger.Config{Store: s}, func(t *testing.T, l *ledger.Ledger) {
		recurring := submit(t, l, every(time.Hour, carillon.OverlapSkip))
		later := submit(t, l, func(d *carillon.Definition) {
			d.Schedule.After = carillon.Duration(time.Hour)
		})
		now := submit(t, l, nil)
		soon := submit(t, l, func(d *carillon.Definition) {
			d.Schedule.After = carillon.Duration(30 * time.Second)
		})
		if !remembered(t, s, l, soon.ID) {
			t.Error("a definition that is needed soon is not remembered")
		}
		ids := []carillon.JobVersion{
			{Job: later.ID, Version: 1},
			{Job: 99, Version: 1},
			{Job: recurring.ID, Version: 1},
			{Job: now.ID, Version: 1},
			{Job: later.ID, Version: 2},
		}
		reads := func() int {
			before := s.reads
			jobs, err := l.Definitions.Get(t.Context(), ids)
			if err != nil || len(jobs) != 5 {
				t.Fatalf("%v, %v", jobs, err)
			}
			for i, want := range []carillon.JobID{later.ID, 0, recurring.ID, now.ID, 0} {
				if (jobs[i] == nil) != (want == 0) || want != 0 && jobs[i].ID != want {
					t.Errorf("number %d: %v, want %s", i, jobs[i], want)
				}
			}
			return s.reads - before
		}
		if n := reads(); n != 4 { // only the submit of a job that is due at once remembers its definition
			t.Errorf("%d definitions are read, want 4", n)
		}
		if n := reads(); n != 4 { // a recurring definition is kept, a one-off's is forgotten when it is read
			t.Errorf("%d definitions are read the second time, want 4", n)
		}
	})
}

func TestTheDefinitionOfAOneOffThatIsClaimedAlreadyIsNotRemembered(t *testing.T) {
	s, have := newStore(), &slots{}
	withSlots(t, ledger.Config{Store: s}, have, func(t *testing.T, l *ledger.Ledger) {
		waits := submit(t, l, nil)
		have.Release(make([]carillon.RunID, 1))
		claimed := submit(t, l, nil)
		if !remembered(t, s, l, waits.ID) {
			t.Error("the run waits, and its definition is not remembered")
		}
		if remembered(t, s, l, claimed.ID) {
			t.Error("the run was claimed with its submit, and its definition is remembered")
		}
	}, func([]carillon.Change) {})
}

func remembered(t *testing.T, s *store, l *ledger.Ledger, id carillon.JobID) bool {
	t.Helper()
	before := s.reads
	if _, err := l.Definitions.Get(t.Context(), []carillon.JobVersion{{Job: id, Version: 1}}); err != nil {
		t.Fatal(err)
	}
	return s.reads == before
}

func TestDefinitionsAreBoundedInNumberAndSize(t *testing.T) {
	payload := json.RawMessage(`"` + strings.Repeat("x", 200<<10) + `"`)
	body := strings.Repeat("y", 60<<10)
	for name, c := range map[string]struct {
		add, kept int
		job       func(*carillon.Job)
	}{
		"many small ones": {250_000, 99_000, func(*carillon.Job) {}},
		"few large ones":  {1000, 400, func(j *carillon.Job) { j.Payload = payload }},
		"few with large requests": {
			5000, 1300, func(j *carillon.Job) { j.Target.HTTP = &carillon.HTTP{Body: body} },
		},
		"few with large scripts": {
			5000, 1300, func(j *carillon.Job) { j.Target.Command = &carillon.Command{Shell: body} },
		},
		"few with large lists": {
			5000, 1300, func(j *carillon.Job) { j.Target.Command = &carillon.Command{Argv: []string{body}} },
		},
		"few with a large environment": {
			5000, 1300,
			func(j *carillon.Job) { j.Target.Command = &carillon.Command{Env: map[string]string{"A": body}} },
		},
		"few with large headers to be set": {
			5000, 1300,
			func(j *carillon.Job) { j.Target.HTTP = &carillon.HTTP{Headers: map[string]string{"A": body}} },
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore()
			l := ledger.New(ledger.Config{Store: s})
			for i := range c.add {
				job := &carillon.Job{ID: carillon.JobID(i + 1), Version: 1}
				c.job(job)
				l.Definitions.Remember(job, job)
			}
			newest, oldest := carillon.JobID(c.add), carillon.JobID(1)
			if !remembered(t, s, l, newest) || !remembered(t, s, l, newest-carillon.JobID(c.kept)/2) {
				t.Errorf("the newest are forgotten")
			}
			if remembered(t, s, l, oldest) || remembered(t, s, l, newest-carillon.JobID(2*c.kept)) {
				t.Errorf("the oldest are still there")
			}
		})
	}
}

// plain returns definitions like a store that serializes them: the schedule is not parsed yet.
type plain struct{ carillon.Store }

func (s plain) Jobs(ctx context.Context, ids []carillon.JobVersion) ([]carillon.Job, error) {
	jobs, err := s.Store.Jobs(ctx, ids)
	for i := range jobs {
		written, _ := json.Marshal(jobs[i].Definition)
		jobs[i].Definition = carillon.Definition{}
		if err := json.Unmarshal(written, &jobs[i].Definition); err != nil {
			return nil, err
		}
	}
	return jobs, err
}

func TestADefinitionCanBeUsedByManyAtOnce(t *testing.T) { // the race detector is the judge
	s := plain{newStore()}
	def := define(t, func(d *carillon.Definition) { d.Schedule.Cron = "*/5 * * * *" })
	job := carillon.Job{Namespace: "default", ID: 7, Definition: def}
	if _, err := s.Commit(t.Context(), []carillon.Change{carillon.Submit(&job, carillon.Now())}); err != nil {
		t.Fatal(err)
	}
	l := ledger.New(ledger.Config{Store: s})
	ids := []carillon.JobVersion{{Job: 7, Version: 1}}
	if _, err := l.Definitions.Get(t.Context(), ids); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			jobs, err := l.Definitions.Get(context.Background(), ids)
			if err != nil || jobs[0].Schedule.Next(carillon.Now()) == 0 ||
				jobs[0].Schedule.Last(carillon.Now()) == 0 {
				t.Errorf("%v, %v", jobs, err)
			}
		})
	}
	all.Wait()
}

func TestDefinitionsAreForgottenWhenTheStoreWasAway(t *testing.T) {
	s := newStore()
	within(t, ledger.Config{Store: s}, func(t *testing.T, l *ledger.Ledger) {
		job := submit(t, l, every(time.Hour, carillon.OverlapSkip))
		if _, err := l.Definitions.Get(t.Context(), []carillon.JobVersion{
			{Job: job.ID, Version: job.Version},
		}); err != nil {
			t.Fatal(err)
		}
		if !remembered(t, s, l, job.ID) {
			t.Fatal("a definition that was read is not remembered")
		}
		s.set(func(s *store) { s.fail = errors.New("the primary is gone") })
		if _, err := l.Commit(t.Context(), notes(0, 1)); err == nil {
			t.Fatal("the commit went well")
		}
		s.set(func(s *store) { s.fail = nil })
		if remembered(t, s, l, job.ID) { // another edit may have got its version since
			t.Error("a definition of before the failover is used after it")
		}
	})
}
