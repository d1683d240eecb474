package ledger_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/idgen"
	"github.com/carillon-run/carillon/internal/ledger"
	"github.com/carillon-run/carillon/porttest"
)

// unique gives a definition a unique key, and what to do if another job holds it.
func unique(
	key string, on carillon.OnConflict, edits ...func(*carillon.Definition),
) func(*carillon.Definition) {
	return func(d *carillon.Definition) {
		d.Unique = &carillon.Unique{Key: key, OnConflict: on}
		d.Schedule.After = carillon.Duration(time.Hour)
		for _, edit := range edits {
			edit(d)
		}
	}
}

var success = carillon.Outcome{Kind: carillon.OutcomeSuccess}

func forAnHour(d *carillon.Definition) { d.Unique.For = carillon.Duration(time.Hour) }
func atOnce(d *carillon.Definition)    { d.Schedule.After = 0 }
func named(name string) func(*carillon.Definition) {
	return func(d *carillon.Definition) { d.Name = name }
}

func TestASubmitWhoseKeyIsHeld(t *testing.T) {
	s := newStore()
	within(t, ledger.Config{Store: s}, func(t *testing.T, l *ledger.Ledger) {
		first := submit(t, l, unique("k", "", named("first")))
		if first.Existing {
			t.Error("a new job existed before")
		}
		again := submit(t, l, unique("k", carillon.ConflictReturn, named("again")))
		if again.ID != first.ID || !again.Existing || again.Name != "first" || again.Version != 1 {
			t.Errorf("returned: %+v", again)
		}
		_, err := l.Submit(
			t.Context(), "default", []carillon.Definition{define(t, unique("k", carillon.ConflictRefuse))},
		)
		var held *carillon.KeyHeldError
		if !errors.As(err, &held) || held.Job != first.ID || held.Key != "k" || held.Until != 0 {
			t.Errorf("refused: %v", err)
		}
		time.Sleep(time.Minute)
		replaced := submit(t, l, unique("k", carillon.ConflictReplace, named("replaced")))
		if replaced.ID != first.ID || !replaced.Existing || replaced.Name != "replaced" ||
			replaced.Version != 2 || replaced.Schedule.At != carillon.Now().Add(time.Hour) {
			t.Errorf("replaced: %+v", replaced)
		}
		if elsewhere, err := l.Submit(t.Context(), "elsewhere", []carillon.Definition{
			define(t, unique("k", carillon.ConflictRefuse)),
		}); err != nil || elsewhere[0].Existing {
			t.Errorf("in another namespace: %v", err)
		}
		if n := jobs(t, s); n != 1 {
			t.Errorf("%d jobs", n)
		}
	})
}

func TestAKeyIsFreeOnceItsJobHasEnded(t *testing.T) {
	type ending = func(t *testing.T, l *ledger.Ledger, s *store, job carillon.JobID) error
	for name, end := range map[string]ending{
		"a success": func(t *testing.T, l *ledger.Ledger, s *store, job carillon.JobID) error {
			finish(t, l, claim(t, l, unfinished(t, s, job)[0]), success)
			return nil
		},
		"a cancel": func(t *testing.T, l *ledger.Ledger, _ *store, job carillon.JobID) error {
			_, err := l.CancelJob(t.Context(), "default", job, false)
			return err
		},
		"a cancel of its run": func(t *testing.T, l *ledger.Ledger, s *store, job carillon.JobID) error {
			_, err := l.CancelRun(t.Context(), "default", unfinished(t, s, job)[0].ID)
			return err
		},
		// As a node of another version ends it.
		"an end that does not free it": func(t *testing.T, _ *ledger.Ledger, s *store, job carillon.JobID) error {
			run := unfinished(t, s, job)[0].End(carillon.StateCanceled, "", carillon.Now())
			_, err := s.Commit(t.Context(), []carillon.Change{{Runs: []carillon.Run{run}}})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore()
			within(t, ledger.Config{Store: s}, func(t *testing.T, l *ledger.Ledger) {
				var last carillon.JobID
				// Also while Forget removes the guard.
				for _, wait := range []time.Duration{0, time.Minute, 45 * time.Minute, 2 * time.Hour, 0} {
					job := submit(t, l, unique("k", carillon.ConflictRefuse, atOnce))
					if job.Existing || job.ID == last {
						t.Fatalf("after %s: %+v", wait, job)
					}
					last = job.ID
					if err := end(t, l, s, job.ID); err != nil {
						t.Fatal(err)
					}
					time.Sleep(wait)
					_, err := s.Forget(t.Context(), carillon.Retention{}, carillon.Now(), 100)
					if err != nil {
						t.Fatal(err)
					}
				}
			})
		})
	}
}

func TestAKeyForATimeIsHeldWhateverBecomesOfTheJob(t *testing.T) {
	s := newStore()
	within(t, ledger.Config{Store: s}, func(t *testing.T, l *ledger.Ledger) {
		first := submit(t, l, unique("k", "", atOnce, forAnHour))
		finish(t, l, claim(t, l, unfinished(t, s, first.ID)[0]), success)
		time.Sleep(time.Hour - time.Millisecond)
		if again := submit(t, l, unique("k", "", forAnHour)); again.ID != first.ID ||
			again.State != carillon.JobFinished {
			t.Errorf("after 59m: %+v", again)
		}
		rule := carillon.Retention{Runs: 1}
		if _, err := s.Forget(t.Context(), rule, carillon.Now(), 100); err != nil {
			t.Fatal(err)
		}
		_, err := l.Submit(t.Context(), "default", []carillon.Definition{define(t, unique("k", "", forAnHour))})
		if err == nil || !strings.Contains(err.Error(), "which is no longer stored, holds the unique key k until") {
			t.Errorf("the job is gone: %v", err)
		}
		time.Sleep(time.Millisecond)
		if next := submit(t, l, unique("k", "", forAnHour)); next.Existing {
			t.Errorf("after an hour: %+v", next)
		}
	})
}

func TestARunThatHasBegunIsNotReplaced(t *testing.T) {
	s := newStore()
	within(t, ledger.Config{Store: s}, func(t *testing.T, l *ledger.Ledger) {
		first := submit(t, l, unique("k", "", atOnce))
		run := claim(t, l, unfinished(t, s, first.ID)[0])
		second := submit(t, l, unique("k", carillon.ConflictReplace))
		if second.Existing || second.ID == first.ID {
			t.Fatalf("%+v", second)
		}
		finish(t, l, run, success)
		if third := submit(t, l, unique("k", carillon.ConflictReturn)); third.ID != second.ID {
			t.Errorf("the end of the first job freed the key of the second: %+v", third)
		}
	})
}

func TestJobsOfOneRequestWithOneKey(t *testing.T) {
	s := newStore()
	within(t, ledger.Config{Store: s}, func(t *testing.T, l *ledger.Ledger) {
		batch := func(ctx context.Context, edits ...func(*carillon.Definition)) ([]carillon.Job, error) {
			var defs []carillon.Definition
			for _, edit := range edits {
				defs = append(defs, define(t, edit))
			}
			return l.Submit(ctx, "default", defs)
		}
		got, err := batch(t.Context(), unique("a", "", named("first")), unique("a", ""), nil,
			unique("b", "", named("first")), unique("b", carillon.ConflictReplace, named("last")))
		if err != nil {
			t.Fatal(err)
		}
		if got[0].ID != got[1].ID || got[0].Existing || !got[1].Existing || got[1].Name != "first" {
			t.Errorf("return: %+v, %+v", got[0], got[1])
		}
		if got[3].ID != got[4].ID || got[3].Existing || !got[4].Existing || got[4].Name != "last" ||
			got[3].Name != "last" {
			t.Errorf("replace: %+v, %+v", got[3], got[4])
		}
		for what, edits := range map[string][]func(*carillon.Definition){
			"jobs[1]: another job of the request has the unique key c": {
				unique("c", ""), unique("c", carillon.ConflictRefuse),
			},
			"jobs[2]: " + got[0].ID.String() + " holds the unique key a until it has ended": {
				nil, unique("d", ""), unique("a", carillon.ConflictRefuse),
			},
		} {
			before := jobs(t, s)
			if _, err := batch(t.Context(), edits...); err == nil || err.Error() != "conflict: "+what ||
				!errors.Is(err, carillon.ErrConflict) {
				t.Errorf("%v, want %s", err, what)
			}
			if n := jobs(t, s) - before; n != 0 {
				t.Errorf("%d jobs of a request that was refused", n)
			}
		}
		mixed, err := batch(t.Context(), unique("a", ""), unique("e", ""), nil)
		if err != nil || mixed[0].ID != got[0].ID || !mixed[0].Existing || mixed[1].Existing ||
			mixed[2].Existing {
			t.Errorf("one that exists, and two new ones: %+v, %v", mixed, err)
		}
		replaced, err := batch(t.Context(), unique("a", carillon.ConflictReplace, named("x")),
			unique("a", carillon.ConflictReplace, named("y")), unique("e", carillon.ConflictReplace),
			unique("f", ""))
		if err != nil || replaced[1].ID != got[0].ID || replaced[1].Name != "y" || replaced[1].Version != 2 ||
			!replaced[2].Existing || replaced[3].Existing {
			t.Errorf("replaced together: %+v, %v", replaced, err)
		}
	})
}

func TestARepeatedRequestGetsTheSameJobs(t *testing.T) {
	s := newStore()
	within(t, ledger.Config{Store: s}, func(t *testing.T, l *ledger.Ledger) {
		there := submit(t, l, unique("there", "", named("there")))
		moved := submit(t, l, unique("moved", "", named("moved")))
		at := carillon.Now()
		defs := []carillon.Definition{
			define(t, unique("there", "")), define(t, unique("new", "")), define(t, nil),
			define(t, unique("moved", carillon.ConflictReplace, named("moved again"))),
			define(t, unique("new", carillon.ConflictReplace, named("last"))),
		}
		got, err := l.Submit(request(t, "k", "r"), "default", defs)
		if err != nil {
			t.Fatal(err)
		}
		if got[0].ID != there.ID || got[3].ID != moved.ID || got[4].ID != got[1].ID {
			t.Fatalf("%+v", got)
		}
		time.Sleep(time.Minute)
		if _, err := l.CancelJob(t.Context(), "default", there.ID, false); err != nil {
			t.Fatal(err)
		}
		submit(t, l, unique("moved", carillon.ConflictReplace, named("moved once more")))
		before := jobs(t, s)
		_, err = l.Submit(request(t, "k", "r"), "default", defs)
		use := repeated(err)
		if use == nil || use.At != at {
			t.Fatalf("repeated: %v", err)
		}
		stored, err := s.Jobs(t.Context(), use.FoundJobs())
		if err != nil {
			t.Fatal(err)
		}
		for i, again := range use.Submitted("default", defs, stored) {
			want := got[i]
			if again.ID != want.ID || again.Existing != want.Existing || again.Version != want.Version ||
				again.State != want.State || again.Name != want.Name || again.Created != want.Created ||
				again.Updated != want.Updated || again.Schedule.At != want.Schedule.At {
				t.Errorf("job %d: first %+v, then %+v", i, want, again)
			}
		}
		if n := jobs(t, s); n != before {
			t.Errorf("%d jobs, then %d", before, n)
		}
		only := []carillon.Definition{define(t, unique("new", ""))}
		first, err := l.Submit(request(t, "k2", "r"), "default", only)
		if err != nil || !first[0].Existing {
			t.Fatalf("%+v, %v", first, err)
		}
		_, err = l.Submit(request(t, "k2", "r"), "default", only)
		if use := repeated(err); use == nil || use.Jobs[0] != first[0].ID {
			t.Errorf("a request that changed nothing, repeated: %v", err)
		}
	})
}

// The caller does not know what the first try did, and tries again without an idempotency key.
func TestASubmitThatIsSentAgainFindsItsJob(t *testing.T) {
	s := newStore()
	within(t, ledger.Config{Store: porttest.Unknown(s, "Commit", 1)}, func(t *testing.T, l *ledger.Ledger) {
		defs := []carillon.Definition{define(t, unique("k", ""))}
		if _, err := l.Submit(t.Context(), "default", defs); !errors.Is(err, porttest.ErrInjected) {
			t.Fatal(err)
		}
		if got, err := l.Submit(t.Context(), "default", defs); err != nil || !got[0].Existing {
			t.Errorf("%+v, %v", got, err)
		}
		if n := jobs(t, s); n != 1 {
			t.Errorf("%d jobs", n)
		}
	})
}

func TestPlainSubmitsDoNotReadGuards(t *testing.T) {
	s := newStore()
	reads := 0
	s.before = func(string) { reads++ }
	within(t, ledger.Config{Store: s}, func(t *testing.T, l *ledger.Ledger) {
		submit(t, l, nil)
		submit(t, l, unique("k", ""))
		if reads != 0 || len(s.sizes()) != 2 {
			t.Errorf("%d reads, commits of %v changes", reads, s.sizes())
		}
	})
}

// A slot that was reserved for a job is free again if the job is not made.
func TestASlotOfAJobThatExistsIsGivenBack(t *testing.T) {
	s, free := newStore(), &slots{free: 3}
	withSlots(t, ledger.Config{Store: s}, free, func(t *testing.T, l *ledger.Ledger) {
		first := submit(t, l, unique("k", "", atOnce))
		if run := unfinished(t, s, first.ID)[0]; run.State != carillon.StateClaimed {
			t.Errorf("the run of a new job is %s", run.State)
		}
		submit(t, l, unique("k", "", atOnce))
		if free.free != 2 {
			t.Errorf("%d slots are free", free.free)
		}
	})
}

func TestManySubmitsThatReplaceOneJobAllSucceed(t *testing.T) {
	s := newStore()
	s.slow = 2 * time.Millisecond
	within(t, ledger.Config{Store: s}, func(t *testing.T, here *ledger.Ledger) {
		there := ledger.New(ledger.Config{Store: s, IDs: idgen.New(2, carillon.Never)})
		ctx, stop := context.WithCancel(context.Background())
		var running, all sync.WaitGroup
		defer running.Wait()
		defer stop()
		running.Go(func() { _ = there.Run(ctx) })
		for i := range 400 {
			l := here
			if i >= 300 {
				l = there
			}
			def := define(t, unique("k", carillon.ConflictReplace))
			all.Go(func() {
				if _, err := l.Submit(t.Context(), "default", []carillon.Definition{def}); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		page, err := s.FindJobs(t.Context(), carillon.JobQuery{Limit: 10})
		if err != nil || len(page.Jobs) != 1 || page.Jobs[0].Version != 400 {
			t.Errorf("%d jobs, %v", len(page.Jobs), err)
		}
	})
}

func TestASubmitThatWaitsForItsTurnCanGiveUp(t *testing.T) {
	s := newStore()
	within(t, ledger.Config{Store: s}, func(t *testing.T, l *ledger.Ledger) {
		submit(t, l, unique("k", ""))
		s.set(func(s *store) { s.slow = time.Minute })
		ctx, cancel := context.WithTimeout(t.Context(), 150*time.Second)
		defer cancel()
		var all sync.WaitGroup
		var gaveUp atomic.Int32
		defs := []carillon.Definition{define(t, unique("k", carillon.ConflictReplace))}
		for range 3 { // one after the other has its turn, for a minute
			all.Go(func() {
				if _, err := l.Submit(ctx, "default", defs); errors.Is(err, context.DeadlineExceeded) {
					gaveUp.Add(1)
				} else if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		s.set(func(s *store) { s.slow = 0 })
		job := submit(t, l, unique("k", carillon.ConflictReplace))
		if n := gaveUp.Load(); n == 0 || job.Version != 2+3-n {
			t.Errorf("%d gave up, and the next submit made version %d", gaveUp.Load(), job.Version)
		}
	})
}
