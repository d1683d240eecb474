package porttest

import (
	"fmt"
	"slices"
	"sync"

	"github.com/carillon-run/carillon"
)

// batchOf is some jobs that are submitted as one, with a guard that only one batch can write.
func (t *storeTest) batchOf(n int, key string) []carillon.Change {
	changes := make([]carillon.Change, n)
	for i := range changes {
		changes[i] = carillon.Submit(t.newJob(nil), t.now)
		changes[i].Joined = i > 0
	}
	changes[0].Guards = append(changes[0].Guards, carillon.Guard{
		Namespace: "a", Key: key, Value: []byte(key),
	})
	return changes
}

// existing counts the jobs of some changes that exist.
func (t *storeTest) existing(changes []carillon.Change) (n int) {
	t.Helper()
	for i := range changes {
		if t.job(changes[i].Job.ID) != nil {
			n++
		}
	}
	return n
}

func storeJoined(t *storeTest) {
	taken, _ := t.submit(nil)
	for lost := range 3 {
		batch := t.batchOf(3, fmt.Sprint(lost))
		again := taken
		again.Rev = 0
		was := batch[lost]
		batch[lost].Job = &again // it exists already
		alone := carillon.Submit(t.newJob(nil), t.now)
		next := carillon.Submit(t.newJob(nil), t.now)
		all := slices.Concat([]carillon.Change{alone}, batch, []carillon.Change{next})
		t.equal("lost", t.commit(all...), []int{1, 2, 3})
		batch[lost] = was
		t.equal("jobs", t.existing(batch), 0)
		t.equal("guard", t.guard("a", fmt.Sprint(lost)), (*carillon.Guard)(nil))
		t.equal("jobs beside them", t.existing([]carillon.Change{alone, next}), 2)
		t.win(batch...)
		t.equal("jobs", t.existing(batch), 3)
	}
}

// Two callers submit a batch each with the same guard at the same time: one batch is there, the other is not.
func storeJoinedRace(t *storeTest) {
	for round := range 10 {
		key := fmt.Sprint("round", round)
		batches := [][]carillon.Change{t.batchOf(5, key), t.batchOf(5, key), t.batchOf(5, key)}
		lost := make([][]int, len(batches))
		var callers sync.WaitGroup
		for i := range batches {
			callers.Go(func() {
				var err error
				if lost[i], err = t.store.Commit(t.Context(), batches[i]); err != nil {
					t.Error(err)
				}
			})
		}
		callers.Wait()
		won := 0
		for i := range batches {
			there := t.existing(batches[i])
			if there+len(lost[i]) != 5 || there != 0 && there != 5 {
				t.Fatalf("%d of 5 jobs are there, and %d were told to be lost", there, len(lost[i]))
			}
			won += there / 5
		}
		t.equal("batches that won", won, 1)
	}
}
