package ledger_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/ledger"
)

// meanwhile does something once, right before the n-th read of a kind, as if another writer had been quicker.
func meanwhile(s *store, read string, n int, do func()) (done *bool) {
	done = new(bool)
	s.set(func(s *store) {
		s.before = func(kind string) {
			if kind != read || *done {
				return
			}
			if n--; n == 0 {
				*done = true
				do()
			}
		}
	})
	return done
}

// others is what other writers can do to a job while a decision about it is being made.
var others = map[string]func(t *testing.T, l *ledger.Ledger, s *store, job carillon.JobID){
	"a caller adds a run": func(t *testing.T, l *ledger.Ledger, _ *store, job carillon.JobID) {
		if _, err := l.RunNow(t.Context(), "default", job, nil); err != nil {
			t.Fatal(err)
		}
	},
	"a worker claims the planned run, and plans the next": func(
		t *testing.T, l *ledger.Ledger, s *store, job carillon.JobID,
	) {
		claim(t, l, unfinished(t, s.Store, job)[0])
	},
	"a caller edits it": func(t *testing.T, l *ledger.Ledger, _ *store, job carillon.JobID) {
		if _, err := l.EditJob(t.Context(), "default", job, func(d *carillon.Definition) error {
			d.Priority = 9
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	},
}

func TestADecisionThatHasNotSeenAllIsMadeAgain(t *testing.T) {
	for _, policy := range []carillon.Overlap{carillon.OverlapSkip, carillon.OverlapAllow} {
		for what, do := range others {
			for _, read := range []string{"jobs", "find runs", "guards"} {
				t.Run(string(policy)+", "+what+" before "+read+" are read", func(t *testing.T) {
					s := newStore()
					within(t, ledger.Config{Store: s}, func(t *testing.T, l *ledger.Ledger) {
						job := submit(t, l, every(time.Minute, policy))
						done := meanwhile(s, read, 1, func() { do(t, l, s, job.ID) })
						if _, err := l.CancelJob(t.Context(), "default", job.ID, false); err != nil {
							t.Fatal(err)
						}
						for _, run := range unfinished(t, s.Store, job.ID) {
							if run.State == carillon.StateWaiting || !run.Has(carillon.FlagStop) {
								t.Errorf(
									"the job is canceled, and %s is %s, flags %b", run.ID, run.State,
									run.Flags,
								)
							}
						}
						if !*done {
							t.Error("nothing happened meanwhile")
						}
					})
				})
			}
		}
	}
}

func TestADecisionAboutManyRunsSeesThemAll(t *testing.T) {
	s := newStore()
	within(t, ledger.Config{Store: s}, func(t *testing.T, l *ledger.Ledger) {
		job := submit(t, l, every(time.Hour, carillon.OverlapAllow))
		head := unfinished(t, s.Store, job.ID)[0]
		more := carillon.Change{Job: &job}
		for i := range 1100 { // due after the planned run, and before its successor
			more.Runs = append(more.Runs, carillon.NewRun(&job, head.ID.Due+carillon.Time(i)+1))
		}
		if lost, err := l.Commit(t.Context(), []carillon.Change{more}); err != nil || len(lost) > 0 {
			t.Fatal(lost, err)
		}
		done := meanwhile(s, "find runs", 2, func() { claim(t, l, head) }) // between two pages
		if _, err := l.CancelJob(t.Context(), "default", job.ID, false); err != nil {
			t.Fatal(err)
		}
		for _, run := range unfinished(t, s.Store, job.ID) {
			if run.State == carillon.StateWaiting {
				t.Errorf("the job is canceled, and %s waits", run.ID)
			}
		}
		if !*done {
			t.Error("nothing happened meanwhile")
		}
	})
}

func TestAnEditIsMadeOnWhatIsThere(t *testing.T) {
	s := newStore()
	within(t, ledger.Config{Store: s}, func(t *testing.T, l *ledger.Ledger) {
		job := submit(t, l, every(time.Minute, carillon.OverlapSkip))
		meanwhile(s, "guards", 1, func() { others["a caller edits it"](t, l, s, job.ID) })
		var seen []int
		edited, err := l.EditJob(t.Context(), "default", job.ID, func(d *carillon.Definition) error {
			seen = append(seen, d.Priority)
			d.Name = "edited"
			return nil
		})
		if err != nil || !slices.Equal(seen, []int{5, 9}) || edited.Priority != 9 ||
			edited.Name != "edited" || edited.Version != 3 {
			t.Errorf("priorities %v, then %+v, %v", seen, edited, err)
		}
		wrong := errors.New("no")
		if _, err := l.EditJob(t.Context(), "default", job.ID, func(*carillon.Definition) error {
			return wrong
		}); !errors.Is(err, wrong) {
			t.Errorf("%v", err)
		}
	})
}

func TestJobsOfOtherNamespacesAreNotThere(t *testing.T) {
	s := newStore()
	within(t, ledger.Config{Store: s}, func(t *testing.T, l *ledger.Ledger) {
		job := submit(t, l, nil)
		run := unfinished(t, s, job.ID)[0]
		ctx := t.Context()
		for name, do := range map[string]func() error{
			"cancel":     func() error { _, err := l.CancelJob(ctx, "other", job.ID, false); return err },
			"pause":      func() error { _, err := l.PauseJob(ctx, "other", job.ID); return err },
			"resume":     func() error { _, err := l.ResumeJob(ctx, "other", job.ID); return err },
			"edit":       func() error { _, err := l.EditJob(ctx, "other", job.ID, nil); return err },
			"run now":    func() error { _, err := l.RunNow(ctx, "other", job.ID, nil); return err },
			"retry":      func() error { _, err := l.RetryRun(ctx, "other", run.ID); return err },
			"cancel run": func() error { _, err := l.CancelRun(ctx, "other", run.ID); return err },
			"checkpoint": func() error {
				return l.SaveCheckpoint(ctx, "other", run.ID, run.Fence(), []byte("1"))
			},
			"no such": func() error { _, err := l.RunNow(ctx, "default", 99, nil); return err },
		} {
			if err := do(); !errors.Is(err, carillon.ErrNotFound) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

func TestOnlyTheAttemptThatHoldsTheRunSavesItsCheckpoint(t *testing.T) {
	s := newStore()
	within(t, ledger.Config{Store: s}, func(t *testing.T, l *ledger.Ledger) {
		job := submit(t, l, nil)
		first := claim(t, l, unfinished(t, s, job.ID)[0])
		save := func(fence int64, data string) error {
			return l.SaveCheckpoint(context.Background(), "default", first.ID, fence, []byte(data))
		}
		if err := save(first.Fence(), "one"); err != nil {
			t.Fatal(err)
		}
		// A user asks the run to stop at the same time: the checkpoint is saved all the same.
		stopped := meanwhile(s, "runs", 1, func() {
			if _, err := l.CancelRun(t.Context(), "default", first.ID); err != nil {
				t.Error(err)
			}
		})
		if err := save(first.Fence(), "two"); err != nil || !*stopped {
			t.Fatal(err)
		}
		if err := save(
			first.Fence(), string(make([]byte, carillon.MaxCheckpoint+1)),
		); !errors.Is(err, carillon.ErrInvalid) {
			t.Errorf("too large: %v", err)
		}
		for _, fence := range []int64{0, first.Fence() - 1, first.Fence() + 1} {
			if err := save(fence, "stale"); !errors.Is(err, carillon.ErrLost) {
				t.Errorf("fence %d: %v", fence, err)
			}
		}
		runs, err := s.Runs(t.Context(), []carillon.RunID{first.ID}, true)
		if err != nil || string(runs[0].Output.Checkpoint) != "two" || !runs[0].Has(carillon.FlagStop) {
			t.Errorf("%+v, %v", runs, err)
		}
		finish(t, l, runs[0], carillon.Outcome{Kind: carillon.OutcomeLost})
		if err := save(first.Fence(), "late"); !errors.Is(err, carillon.ErrLost) {
			t.Errorf("after its end: %v", err)
		}
	})
}

func TestADeadLetterIsRedrivenOnce(t *testing.T) {
	s := newStore()
	within(t, ledger.Config{Store: s}, func(t *testing.T, l *ledger.Ledger) {
		job := submit(t, l, nil)
		run := claim(t, l, unfinished(t, s, job.ID)[0])
		finish(t, l, run, carillon.Outcome{Kind: carillon.OutcomeFatal, Reason: "no"})
		meanwhile(s, "find runs", 2, func() { // another caller retries it before it is looked up
			if _, err := l.RetryDeadLetter(t.Context(), "default", run.ID, nil); err != nil {
				t.Error(err)
			}
		})
		if again, err := l.RetryDeadLetter(t.Context(), "default", run.ID, nil); !errors.Is(err, carillon.ErrNotFound) {
			t.Errorf("a second time: %v, %v", again.ID, err)
		}
		if again, err := l.RetryRun(t.Context(), "default", run.ID); err != nil ||
			again.RetryOf != run.ID.Due {
			t.Errorf("it can still be repeated: %+v, %v", again, err)
		}
		if runs := unfinished(t, s.Store, job.ID); len(runs) != 2 {
			t.Errorf("%d runs, want the retried one and the repetition", len(runs))
		}
	})
}

func TestAWaitingRunOnHoldIsNotDecidedAbout(t *testing.T) {
	s := newStore()
	within(t, ledger.Config{Store: s}, func(t *testing.T, l *ledger.Ledger) {
		waits, held := submit(t, l, nil), submit(t, l, nil)
		claim(t, l, unfinished(t, s.Store, held.ID)[0])
		for _, job := range []carillon.Job{waits, held} {
			if _, err := l.PauseJob(t.Context(), "default", job.ID); err != nil {
				t.Fatal(err)
			}
		}
		runs := slices.Concat(unfinished(t, s.Store, waits.ID), unfinished(t, s.Store, held.ID))
		candidates, err := l.Candidates(t.Context(), runs, "worker_2")
		// held runs may be taken back
		if err != nil || len(candidates) != 1 || candidates[0].Run.ID.Job != held.ID {
			t.Errorf("%+v, %v", candidates, err)
		}
	})
}

func TestWhatDecisionsAboutManyRunsNeedIsReadAtOnce(t *testing.T) {
	s := newStore()
	within(t, ledger.Config{Store: s}, func(t *testing.T, l *ledger.Ledger) {
		const jobs = 7
		replaced := map[carillon.JobID]carillon.Run{}
		var due []carillon.Run
		for range jobs {
			job := submit(t, l, every(time.Minute, carillon.OverlapReplace))
			time.Sleep(time.Minute)
			replaced[job.ID] = claim(t, l, unfinished(t, s.Store, job.ID)[0])
			due = append(due, unfinished(t, s.Store, job.ID)[0])
		}
		reads := map[string]int{}
		s.set(func(s *store) { s.before = func(read string) { reads[read]++ } })
		candidates, err := l.Candidates(t.Context(), due, "worker_2")
		if err != nil || len(candidates) != jobs {
			t.Fatalf("%d candidates, %v", len(candidates), err)
		}
		if want := map[string]int{"guards": 1, "runs": 1}; !maps.Equal(reads, want) {
			t.Errorf("reads %v, want %v", reads, want)
		}
		for i := range candidates {
			_, c := candidates[i].Decide(due[i].ID.Due)
			stopped := slices.ContainsFunc(c.Runs, func(r carillon.Run) bool {
				return r.ID == replaced[due[i].ID.Job].ID && r.Has(carillon.FlagStop)
			})
			if !stopped {
				t.Errorf("%s replaces nothing", due[i].ID)
			}
		}
	})
}

func TestAnEditAfterTheClockWasSetBackPlansNothingThatHasRun(t *testing.T) {
	s := newStore()
	clock := &carillon.Clock{}
	within(t, ledger.Config{Store: s, Clock: clock}, func(t *testing.T, l *ledger.Ledger) {
		job := submit(t, l, every(time.Minute, carillon.OverlapSkip))
		first := unfinished(t, s.Store, job.ID)[0]
		time.Sleep(time.Minute)
		finish(t, l, claim(t, l, first), carillon.Outcome{Kind: carillon.OutcomeSuccess})
		clock.SetAhead(-30 * time.Second)
		if _, err := l.EditJob(t.Context(), "default", job.ID, func(d *carillon.Definition) error {
			d.Schedule.MaxRuns = 7
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		for _, run := range unfinished(t, s.Store, job.ID) {
			if run.ID == first.ID {
				t.Errorf("%s has run, and is planned again", run.ID)
			}
		}
	})
}
