package postgres_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/adapter/postgres"
	"github.com/carillon-run/carillon/internal/idgen"
)

const now carillon.Time = 1_800_000_000_000

// submissions returns the changes that submit one-offs that are due now.
func submissions(t testing.TB, ids *idgen.IDs, n int) (changes []carillon.Change) {
	t.Helper()
	def := carillon.Definition{}
	def.Type, def.Target.Handler = "mail.send", &carillon.Handler{}
	if err := def.Admit(now); err != nil {
		t.Fatal(err)
	}
	for range n {
		id, err := ids.Next(now)
		if err != nil {
			t.Fatal(err)
		}
		changes = append(
			changes, carillon.Submit(&carillon.Job{ID: id, Namespace: "default", Definition: def}, now),
		)
	}
	return changes
}

func commit(t testing.TB, store carillon.Store, changes ...carillon.Change) (lost []int) {
	t.Helper()
	lost, err := store.Commit(context.Background(), changes)
	if err != nil {
		t.Error(err)
	}
	return lost
}

// together commits to several stores at once and returns the lost changes of each.
func together(t *testing.T, stores []*postgres.Store, changes func(i int) []carillon.Change) [][]int {
	t.Helper()
	lost := make([][]int, len(stores))
	var all sync.WaitGroup
	for i, store := range stores {
		all.Go(func() { lost[i] = commit(t, store, changes(i)...) })
	}
	all.Wait()
	return lost
}

func nodes(t *testing.T, n int) (stores []*postgres.Store) {
	t.Helper()
	url := database(t)
	for range n {
		stores = append(stores, open(t, url, postgres.Config{}))
	}
	return stores
}

func TestOfSeveralNodesThatClaimTheSameRunsInAnyOrderOneGetsEach(t *testing.T) {
	stores, ids := nodes(t, 3), idgen.New(1, carillon.Never)
	for round := range 5 {
		submits := submissions(t, ids, 60)
		commit(t, stores[0], submits...)
		lost := together(t, stores, func(i int) (claims []carillon.Change) {
			for n := range submits { // each begins at another run, and the second goes backwards
				at := (n + 20*i) % len(submits)
				if i == 1 {
					at = len(submits) - 1 - n
				}
				run := submits[at].Runs[0]
				run.Rev = 1
				claims = append(claims, carillon.Change{
					Runs: []carillon.Run{run.Claim(fmt.Sprint("worker-", i), now)},
				})
			}
			return claims
		})
		won := 0
		for _, l := range lost {
			won += len(submits) - len(l)
		}
		if won != len(submits) {
			t.Errorf("round %d: %d claims won, there were %d runs", round, won, len(submits))
		}
	}
}

func TestTwoNodesThatEachCompareWhatTheOtherWritesDoNotBothWin(t *testing.T) {
	stores := nodes(t, 2)
	key := func(name string, round int) string { return fmt.Sprint(name, "-", round) }
	for round := range 100 {
		var made carillon.Change
		for _, name := range []string{"a", "b"} {
			made.Guards = append(made.Guards, carillon.Guard{
				Namespace: "default", Key: key(name, round), Value: []byte("1"),
			})
		}
		commit(t, stores[0], made)
		lost := together(t, stores, func(i int) []carillon.Change {
			written, compared := made.Guards[i], made.Guards[1-i]
			written.Rev, compared.Rev = 1, 1
			return []carillon.Change{{
				Guards: []carillon.Guard{written}, Compared: []carillon.GuardRev{compared.Compare()},
			}}
		})
		if len(lost[0])+len(lost[1]) != 1 {
			t.Fatalf("round %d: %d of 2 lost", round, len(lost[0])+len(lost[1]))
		}
	}
}

func TestTwoNodesThatEachNeedWhatTheOtherMakesToBeAbsentDoNotBothWin(t *testing.T) {
	stores := nodes(t, 2)
	change := func(made, absent string) []carillon.Change {
		return []carillon.Change{{
			Guards:   []carillon.Guard{{Namespace: "default", Key: made, Value: []byte("1")}},
			Compared: []carillon.GuardRev{{Namespace: "default", Key: absent}},
		}}
	}
	for round := range 100 {
		a, b := fmt.Sprint("a", round), fmt.Sprint("b", round)
		lost := together(t, stores, func(i int) []carillon.Change {
			if i == 1 {
				return change(b, a)
			}
			return change(a, b)
		})
		if len(lost[0])+len(lost[1]) == 0 {
			t.Fatalf("round %d: both won", round)
		}
	}
}

func TestARunIsNotInsertedBesideARecordThatSaysItNeverWaited(t *testing.T) {
	stores, ids := nodes(t, 2), idgen.New(1, carillon.Never)
	for range 50 {
		submit := submissions(t, ids, 1)[0]
		record := submit.Runs[0].End(carillon.StateSkipped, "missed", now)
		lost := together(t, stores, func(i int) []carillon.Change {
			if i == 0 {
				return []carillon.Change{submit}
			}
			return []carillon.Change{{Runs: []carillon.Run{record}}}
		})
		// Either order is right; but if the run was first, the record must have lost.
		page, err := stores[0].FindRuns(context.Background(), carillon.RunQuery{Job: submit.Job.ID})
		if err != nil {
			t.Fatal(err)
		}
		if want := 2 - len(lost[0]) - len(lost[1]); len(lost[0]) > 0 || len(page.Runs) != want {
			t.Fatalf("lost %v, found %d", lost, len(page.Runs))
		}
	}
}

func TestAJobIsNotForgottenWhileARunIsAddedToIt(t *testing.T) {
	stores, ids := nodes(t, 2), idgen.New(1, carillon.Never)
	for range 30 {
		submit := submissions(t, ids, 1)[0]
		commit(t, stores[0], submit)
		run := submit.Runs[0]
		run.Rev = 1
		commit(t, stores[0], carillon.Change{Runs: []carillon.Run{run.End(carillon.StateSucceeded, "", now)}})
		job := *submit.Job
		job.Rev = 1
		again := carillon.NewRun(&job, run.ID.Due+1)
		again.Flags |= carillon.FlagAdditional
		var lost []int
		var all sync.WaitGroup
		all.Go(func() {
			lost = commit(t, stores[0], carillon.Change{Job: &job, Runs: []carillon.Run{again}})
		})
		all.Go(func() {
			if _, err := stores[1].Forget(
				context.Background(), carillon.Retention{Runs: 1}, now+1000, 10,
			); err != nil {
				t.Error(err)
			}
		})
		all.Wait()
		jobs, err := stores[0].Jobs(context.Background(), []carillon.JobVersion{{Job: job.ID}})
		if err != nil {
			t.Fatal(err)
		}
		if len(jobs) != 1-len(lost) {
			t.Fatalf("lost %v, and there are %d jobs", lost, len(jobs))
		}
		if len(lost) == 0 {
			again.Rev = 1
			commit(t, stores[0], carillon.Change{
				Runs: []carillon.Run{again.End(carillon.StateCanceled, "", now)},
			})
		}
	}
}
