package mysql_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/adapter/mysql"
	"github.com/carillon-run/carillon/porttest/server"
)

// nodes opens one database several times.
func nodes(t *testing.T, n int) []*mysql.Store {
	t.Helper()
	url := database(t)
	all := make([]*mysql.Store, n)
	for i := range all {
		all[i] = openAt(t, url)
	}
	return all
}

// Every change compares a guard, counts it up and adds another row. Batches name the same guards in different
// orders, so they are in each other's way. What is stored must be what was won.
func TestNodesThatWriteTheSameRowsDoNotLoseAWrite(t *testing.T) {
	const guards, rounds = 20, 30
	all := nodes(t, 3)
	key := func(i int) string { return fmt.Sprintf("count/%02d", i) }
	for i := range guards {
		win(t, all[0], guard(key(i), 0, ""))
	}
	var won [guards]atomic.Int32
	var done sync.WaitGroup
	for node, store := range all {
		for range 2 {
			done.Go(func() {
				r := rand.New(rand.NewPCG(uint64(node), 1))
				for range rounds {
					revs := map[string]int32{}
					found, err := store.Guards(context.Background(), carillon.GuardQuery{
						Namespace: "default", Prefix: "count/",
					})
					if err != nil {
						t.Error(err)
					}
					for _, g := range found {
						revs[g.Key] = g.Rev
					}
					order := r.Perm(guards)
					var batch []carillon.Change
					for _, i := range order {
						c := guard(key(i), revs[key(i)], "x")
						record := carillon.Guard{
							Namespace: "default", Key: fmt.Sprintf("record/%s/%d", key(i), revs[key(i)]),
							Value: []byte{},
						}
						c.Guards = append(c.Guards, record)
						batch = append(batch, c)
					}
					lost, err := store.Commit(context.Background(), batch)
					if err != nil {
						t.Error(err)
					}
					for n, i := range order {
						if len(lost) > 0 && lost[0] == n {
							lost = lost[1:]
						} else {
							won[i].Add(1)
						}
					}
				}
			})
		}
	}
	done.Wait()
	records, err := all[0].Guards(t.Context(), carillon.GuardQuery{Namespace: "default", Prefix: "record/"})
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for i := range guards {
		g, err := all[0].Guards(t.Context(), carillon.GuardQuery{
			Namespace: "default", Keys: []string{key(i)},
		})
		if err != nil || g[0].Rev != won[i].Load()+1 {
			t.Errorf("%s: %v, won %d: %v", key(i), g, won[i].Load(), err)
		}
		total += int(won[i].Load())
	}
	if total != len(records) || total == 0 {
		t.Errorf("%d records of %d that won", len(records), total)
	}
}

// One node creates a guard while another node sees that there is none and writes a row that depends on that.
// Both cannot win, unless the other node came first.
func TestWhatMustNotExistDoesNotComeBetween(t *testing.T) {
	all := nodes(t, 2)
	for round := range 60 {
		key := fmt.Sprintf("lock/%d", round)
		made := guard(key, 0, "made")
		rests := carillon.Change{
			Guards:   []carillon.Guard{{Namespace: "default", Key: key + "/rests", Value: []byte{}}},
			Compared: []carillon.GuardRev{{Namespace: "default", Key: key}},
		}
		// The node that creates the guard also checks that no row depends on its absence: of two such changes
		// at once one must lose.
		made.Compared = []carillon.GuardRev{{Namespace: "default", Key: key + "/rests"}}
		if one, two := race(t, all, made, rests); one == two {
			t.Fatalf("round %d: both won or both lost: %v %v", round, one, two)
		}
	}
}

// Each node compares a guard that the other writes: whichever comes second must see that.
func TestTwoNodesThatEachCompareWhatTheOtherWritesDoNotBothWin(t *testing.T) {
	all := nodes(t, 2)
	for round := range 60 {
		a, b := fmt.Sprintf("a/%d", round), fmt.Sprintf("b/%d", round)
		win(t, all[0], guard(a, 0, "1"), guard(b, 0, "1"))
		one, two := guard(a, 1, "2"), guard(b, 1, "2")
		one.Compared = []carillon.GuardRev{{Namespace: "default", Key: b, Rev: 1}}
		two.Compared = []carillon.GuardRev{{Namespace: "default", Key: a, Rev: 1}}
		if one, two := race(t, all, one, two); one == two {
			t.Fatalf("round %d: both won or both lost: %v %v", round, one, two)
		}
	}
}

// One node records a run that never waited, another node inserts the same run.
func TestARecordDoesNotHideARunThatComesAtTheSameTime(t *testing.T) {
	all := nodes(t, 2)
	changes := submits(t, 60, nil)
	win(t, all[0], changes...)
	for i, c := range changes {
		inserted := carillon.NewRun(c.Job, now+1)
		inserted.Flags |= carillon.FlagAdditional
		record := inserted.End(carillon.StateSkipped, "missed", now)
		job := *c.Job
		job.Rev = 1
		made := carillon.Guard{Namespace: "default", Key: fmt.Sprintf("inserted/%d", i), Value: []byte{}}
		insert := carillon.Change{Job: &job, Runs: []carillon.Run{inserted}, Guards: []carillon.Guard{made}}
		skip := carillon.Change{
			Runs: []carillon.Run{record}, Compared: []carillon.GuardRev{made.Compare()},
		}
		won, skipped := race(t, all, insert, skip)
		runs, err := all[0].FindRuns(t.Context(), carillon.RunQuery{Job: job.ID, From: now + 1})
		if err != nil || !won {
			t.Fatal(won, err)
		}
		want := 1 // the run, which came first
		if skipped {
			want = 2 // the record, and then the run
		}
		if len(runs.Runs) != want || runs.Runs[0].State != carillon.StateWaiting {
			t.Fatalf("round %d: %v %v", i, skipped, runs.Runs)
		}
	}
}

// race commits two changes at once and says which won.
func race(t *testing.T, on []*mysql.Store, changes ...carillon.Change) (one, two bool) {
	t.Helper()
	var won [2]bool
	var both sync.WaitGroup
	for i := range won {
		both.Go(func() {
			lost, err := on[i].Commit(context.Background(), changes[i:i+1])
			if err != nil {
				t.Error(err)
			}
			won[i] = len(lost) == 0
		})
	}
	both.Wait()
	return won[0], won[1]
}

func TestAJobIsNotForgottenWhileARunOfItComes(t *testing.T) {
	all := nodes(t, 2)
	rule := carillon.Retention{Runs: carillon.Duration(time.Hour)}
	changes := submits(t, 40, nil)
	win(t, all[0], changes...)
	for _, c := range changes {
		win(t, all[0], ended(c, now))
		again := carillon.NewRun(c.Job, now+1)
		again.Flags |= carillon.FlagAdditional
		job := *c.Job
		job.Rev = 1
		var won bool
		var both sync.WaitGroup
		both.Go(func() {
			lost, err := all[0].Commit(context.Background(), []carillon.Change{
				{Job: &job, Runs: []carillon.Run{again}},
			})
			if err != nil {
				t.Error(err)
			}
			won = len(lost) == 0
		})
		both.Go(func() {
			if _, err := all[1].Forget(context.Background(), rule, now.Add(2*time.Hour), 10); err != nil {
				t.Error(err)
			}
		})
		both.Wait()
		jobs, err := all[0].Jobs(t.Context(), []carillon.JobVersion{{Job: job.ID}})
		runs, err2 := all[0].Runs(t.Context(), []carillon.RunID{again.ID}, false)
		if err != nil || err2 != nil || (len(jobs) == 1) != won || (len(runs) == 1) != won {
			t.Fatalf("won %v: %d jobs, %d runs, %v %v", won, len(jobs), len(runs), err, err2)
		}
	}
}

func TestAServerThatComesBackIsFoundAgainAndHasWhatItSaidItHas(t *testing.T) {
	s := server.MariaDB(t, "innodb_flush_log_at_trx_commit=1")
	store := openAt(t, s.URL)
	restart := func() error { return s.Restart(t.Context()) }
	for name, stop := range map[string]func() error{"restarted": restart, "killed": s.Kill} {
		ctx, cancel := context.WithCancel(t.Context())
		var said []string
		failed := 0
		begun := make(chan struct{})
		var busy sync.WaitGroup
		busy.Go(func() { // a goroutine that writes all the time
			for n := 0; ctx.Err() == nil; n++ {
				key := fmt.Sprintf("%s/%d", name, n)
				if _, err := store.Commit(context.Background(), []carillon.Change{
					guard(key, 0, "x"),
				}); err != nil {
					failed++
				} else {
					said = append(said, key)
				}
				if n == 20 {
					close(begun)
				}
			}
		})
		<-begun
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if s.Pid() == 0 {
			_, err := store.Commit(t.Context(), []carillon.Change{guard("none", 0, "x")})
			_, err2 := store.Guards(t.Context(), carillon.GuardQuery{})
			if err == nil || err2 == nil || errors.Is(errors.Join(err, err2), carillon.ErrPermanent) {
				t.Errorf("a server that is not there: %v, %v", err, err2)
			}
		}
		if err := s.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		win(t, store, guard(name, 0, "x")) // at the first attempt
		cancel()
		busy.Wait()
		kept, err := store.Guards(t.Context(), carillon.GuardQuery{Namespace: "default", Keys: said})
		if err != nil || len(kept) != len(said) || failed == 0 {
			t.Errorf("%s: %d of %d are left, %d failed: %v", name, len(kept), len(said), failed, err)
		}
	}
}

// A frozen server looks like one behind a network that drops everything.
func TestACallToAServerThatDoesNotAnswerEnds(t *testing.T) {
	s := server.MariaDB(t)
	openAt(t, s.URL) // makes the tables, which can take longer
	store, err := mysql.Open(t.Context(), s.URL, mysql.Config{Timeout: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if err := s.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer s.Signal(syscall.SIGCONT)
	_, err = store.Commit(t.Context(), []carillon.Change{guard("k", 0, "1")})
	if err == nil {
		t.Error("a frozen server answered")
	}
}
