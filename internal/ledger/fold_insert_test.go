package ledger_test

import (
	"testing"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/ledger"
)

// inserting is a fold that takes a slot, and inserts a job with these ids for it.
func inserting(key string, ids ...carillon.JobID) carillon.Fold {
	fold := take(key, 100)
	fold.Insert = func(was, is *carillon.Guard, now carillon.Time) (changes []carillon.Change) {
		if string(was.Value) == string(is.Value) {
			return nil
		}
		for _, id := range ids {
			job := &carillon.Job{Namespace: "default", ID: id}
			job.Name, job.Type, job.Queue, job.Target.Handler = "node", "test", "default", &carillon.Handler{}
			job.Schedule.At = now
			changes = append(changes, carillon.Submit(job, now))
		}
		return changes
	}
	return fold
}

// marking is a change that makes a guard, and folds.
func marking(key string, fold carillon.Fold) carillon.Change {
	return carillon.Change{
		Guards: []carillon.Guard{{Namespace: "default", Key: key, Value: []byte("x")}},
		Folds:  []carillon.Fold{fold},
	}
}

func TestWhatAFoldInsertsIsWrittenWithItsChangeOrNotAtAll(t *testing.T) {
	s := newStore()
	within(t, ledger.Config{Store: s}, func(t *testing.T, l *ledger.Ledger) {
		if lost, err := l.Commit(t.Context(), []carillon.Change{
			marking("a", inserting("slots", 101, 102)),
		}); err != nil || len(lost) > 0 {
			t.Fatalf("lost %v, %v", lost, err)
		}
		// 102 exists: nothing of the second change is written, and the third one wins.
		lost, err := l.Commit(t.Context(), []carillon.Change{
			marking("b", inserting("slots", 103, 102)), marking("c", inserting("slots", 104)),
		})
		if err != nil || len(lost) != 1 || lost[0] != 0 {
			t.Errorf("lost %v, %v, want the first", lost, err)
		}
		expectGuard(t, s, "slots", "2", 2)
		expectGuard(t, s, "a", "x", 1)
		expectGuard(t, s, "b", "", 0)
		expectGuard(t, s, "c", "x", 1)
		for id, want := range map[carillon.JobID]int{101: 1, 102: 1, 103: 0, 104: 1} {
			if got := len(unfinished(t, s, id)); got != want {
				t.Errorf("%s has %d runs, want %d", id, got, want)
			}
		}
	})
}
