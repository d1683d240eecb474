package ledger_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/ledger"
)

// keeping are slots that keep the jobs of their runs, as a dispatcher does.
type keeping struct {
	slots
	jobs []*carillon.Job
}

func (k *keeping) Reserve(run *carillon.Run, job *carillon.Job, now carillon.Time) (string, bool) {
	worker, ok := k.slots.Reserve(run, job, now)
	if ok {
		k.jobs = append(k.jobs, job)
	}
	return worker, ok
}

func TestTheCallerCanChangeTheAnswerToASubmit(t *testing.T) {
	delays := []time.Duration{0, 30 * time.Second, time.Minute, time.Hour}
	s := newStore()
	within(t, ledger.Config{Store: s}, func(t *testing.T, l *ledger.Ledger) {
		defs := []carillon.Definition{define(t, every(time.Hour, carillon.OverlapAllow))}
		for _, delay := range delays {
			defs = append(defs, define(t, func(d *carillon.Definition) {
				d.Schedule.At = carillon.Now().Add(delay)
			}))
		}
		jobs, err := l.Submit(t.Context(), "default", defs)
		if err != nil {
			t.Fatal(err)
		}
		var runs []carillon.Run
		for i := range jobs {
			runs = append(runs, unfinished(t, s, jobs[i].ID)...)
			if jobs[i].Type != "test" || jobs[i].Rev != 1 {
				t.Errorf("job %d: %s at revision %d", i, jobs[i].Type, jobs[i].Rev)
			}
			jobs[i].Type = "changed"
		}
		candidates, err := l.Candidates(t.Context(), runs, "")
		if err != nil || len(candidates) != len(defs) {
			t.Fatal(len(candidates), err)
		}
		for i := range candidates {
			if got := candidates[i].Job.Type; got != "test" {
				t.Errorf("the run that is due at %s: %s", candidates[i].Run.ID.Due, got)
			}
		}
	})
}

func TestTheCallerCanChangeTheAnswerToASubmitThatWaitedUntilItsJobWasDue(t *testing.T) {
	s, have := newStore(), &keeping{slots: slots{free: 1}}
	withSlots(t, ledger.Config{Store: s}, have, func(t *testing.T, l *ledger.Ledger) {
		s.set(func(s *store) { s.gate = make(chan struct{}) })
		other := define(t, func(d *carillon.Definition) { d.Queue = "other" })
		def := define(t, func(d *carillon.Definition) {
			d.Schedule.After = carillon.Duration(2 * time.Minute)
		})
		go func() {
			if _, err := l.Submit(t.Context(), "default", []carillon.Definition{other}); err != nil {
				t.Error(err)
			}
		}()
		synctest.Wait() // its commit takes long
		var job *carillon.Job
		go func() {
			jobs, err := l.Submit(t.Context(), "default", []carillon.Definition{def})
			if err != nil {
				t.Error(err)
				return
			}
			job = &jobs[0]
			job.Type = "changed"
		}()
		time.Sleep(3 * time.Minute)
		close(s.gate)
		synctest.Wait()
		if job == nil || job.Rev != 1 || len(have.jobs) != 1 {
			t.Fatalf("the caller has %+v, slots have %d jobs", job, len(have.jobs))
		}
		if got := have.jobs[0]; got.ID != job.ID || got.Type != "test" {
			t.Errorf("the caller has %+v, the slot %+v", job, got)
		}
	})
}
