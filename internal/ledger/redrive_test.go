package ledger_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/ledger"
)

// bury lets runs of several jobs fail for good.
func bury(t *testing.T, s *store, l *ledger.Ledger, n int) (letters []carillon.RunID) {
	t.Helper()
	for range n {
		run := claim(t, l, unfinished(t, s, submit(t, l, nil).ID)[0])
		finish(t, l, run, carillon.Outcome{Kind: carillon.OutcomeFatal, Reason: "no"})
		letters = append(letters, run.ID)
	}
	return letters
}

func TestManyDeadLettersAreRetriedWithOneCommit(t *testing.T) {
	s := newStore()
	within(t, ledger.Config{Store: s}, func(t *testing.T, l *ledger.Ledger) {
		letters := bury(t, s, l, 20)
		s.mu.Lock()
		s.commits = nil
		s.mu.Unlock()
		for i, err := range l.RetryDeadLetters(t.Context(), "default", letters) {
			if err != nil {
				t.Errorf("letter %d: %v", i, err)
			}
		}
		if got := fmt.Sprint(s.commits); got != "[20]" {
			t.Errorf("commits of %s changes", got)
		}
		for _, id := range letters {
			if runs := unfinished(t, s, id.Job); len(runs) != 1 || runs[0].RetryOf != id.Due {
				t.Errorf("%s is repeated by %+v", id, runs)
			}
		}
	})
}

func TestEachOfManyLettersGetsItsOwnAnswer(t *testing.T) {
	s := newStore()
	within(t, ledger.Config{Store: s}, func(t *testing.T, l *ledger.Ledger) {
		letters := bury(t, s, l, 4)
		retried, canceled, raced, fine := letters[0], letters[1], letters[2], letters[3]
		if _, err := l.RetryDeadLetter(t.Context(), "default", retried, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := l.CancelJob(t.Context(), "default", canceled.Job, false); err != nil {
			t.Fatal(err)
		}
		repeating := submit(t, l, every(time.Hour, carillon.OverlapAllow))
		var both []carillon.RunID
		for range 2 {
			added, err := l.RunNow(t.Context(), "default", repeating.ID, nil)
			if err != nil {
				t.Fatal(err)
			}
			found, err := s.Runs(t.Context(), []carillon.RunID{added.ID}, false)
			if err != nil {
				t.Fatal(err)
			}
			run := claim(t, l, found[0])
			finish(t, l, run, carillon.Outcome{Kind: carillon.OutcomeFatal, Reason: "no"})
			both = append(both, run.ID)
		}
		meanwhile(s, "guards", 1, func() { // another caller is quicker
			if _, err := l.RetryDeadLetter(t.Context(), "default", raced, nil); err != nil {
				t.Error(err)
			}
		})
		unknown := carillon.RunID{Job: 1, Due: 1}
		given := append([]carillon.RunID{retried, canceled, raced, fine, unknown}, both...)
		results := l.RetryDeadLetters(t.Context(), "default", given)
		for i, want := range []error{
			carillon.ErrNotFound, carillon.ErrConflict, carillon.ErrNotFound, nil, carillon.ErrNotFound, nil,
			nil,
		} {
			if !errors.Is(results[i], want) {
				t.Errorf("letter %d: %v, want %v", i, results[i], want)
			}
		}
		if err := l.RetryDeadLetters(t.Context(), "elsewhere", []carillon.RunID{canceled})[0]; !errors.Is(
			err, carillon.ErrNotFound,
		) {
			t.Errorf("a letter of another namespace: %v", err)
		}
		for id, want := range map[carillon.JobID]int{
			retried.Job: 1, canceled.Job: 0, raced.Job: 1, fine.Job: 1, repeating.ID: 3,
		} {
			if runs := unfinished(t, s.Store, id); len(runs) != want {
				t.Errorf("%s has %d runs, want %d", id, len(runs), want)
			}
		}
	})
}

func TestANewPayloadIsForTheNewRunOnly(t *testing.T) {
	s := newStore()
	within(t, ledger.Config{Store: s}, func(t *testing.T, l *ledger.Ledger) {
		letter := bury(t, s, l, 1)[0]
		if _, err := l.RetryDeadLetter(t.Context(), "default", letter, []byte(`{`)); !errors.Is(
			err, carillon.ErrInvalid,
		) {
			t.Errorf("a payload that is no JSON: %v", err)
		}
		again, err := l.RetryDeadLetter(t.Context(), "default", letter, []byte(`{"n":2}`))
		if err != nil || string(again.Output.Payload) != `{"n":2}` || !again.Has(carillon.FlagOwnPayload) {
			t.Fatalf("%+v, %v", again, err)
		}
		old, err := s.Runs(t.Context(), []carillon.RunID{letter}, true)
		if err != nil || len(old) != 1 || old[0].Output != nil || old[0].State != carillon.StateFailed {
			t.Errorf("the old run is %+v, %v", old, err)
		}
	})
}
