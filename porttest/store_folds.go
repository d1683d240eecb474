package porttest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/idgen"
	"github.com/carillon-run/carillon/internal/ledger"
)

// Folds are a part of the ledger, but they need stores that take changes with many rows, and that compare the
// guards of concurrent commits.
var storeFolds = []storeCase{
	{"folds: of a thousand takes at once exactly as many win as there are slots", func(t *storeTest) {
		const takes, limit = 1000, 100
		won := t.fold(takes, func(i int) carillon.Change {
			c := t.note(i)
			c.Folds = []carillon.Fold{fold("limit", 1, limit)}
			return c
		})
		n := 0
		for i := range won {
			if won[i] != (t.guard("folds", fmt.Sprint(i)) != nil) {
				t.Errorf("change %d: won %v, and the store has another opinion", i, won[i])
			}
			if won[i] {
				n++
			}
		}
		t.equal("won", n, limit)
		t.equal("taken", string(t.guard("folds", "limit").Value), "100")
	}},
	{"folds: claims of many jobs are one change, and a claim that has lost stays alone", func(t *storeTest) {
		const claims, stale, limit = 60, 20, 40
		runs := make([]carillon.Run, claims)
		for i := range runs {
			_, runs[i] = t.submit(nil)
		}
		won := t.fold(claims, func(i int) carillon.Change {
			run := runs[i].Claim("worker_1", t.now)
			if i < stale {
				run.Rev += 5
			}
			return carillon.Change{
				Runs: []carillon.Run{run}, Folds: []carillon.Fold{fold("limit", 1, limit)},
			}
		})
		for i := range won {
			state := carillon.StateWaiting
			if i >= stale {
				state = carillon.StateClaimed
			}
			if got := t.run(runs[i].ID).State; won[i] != (i >= stale) || got != state {
				t.Errorf("claim %d: won %v, the run is %s", i, won[i], got)
			}
		}
		t.equal("taken", string(t.guard("folds", "limit").Value), strconv.Itoa(claims-stale))
	}},
	{"folds: guards count exactly the changes that won", func(t *storeTest) {
		random := rand.New(rand.NewPCG(uint64(Seed(t.T)), 2))
		keys, want := []string{"a", "b", "c"}, map[string]int{}
		of := make([][]string, 300)
		for i := range of { // each takes a slot of one or two guards
			at := random.IntN(3)
			if of[i] = keys[at : at+1]; random.IntN(2) == 0 {
				of[i] = []string{keys[at], keys[(at+1)%3]}
			}
		}
		won := t.fold(len(of), func(i int) carillon.Change {
			c := t.note(i)
			if i%10 == 9 { // two changes of the same row: one of them loses
				c = t.note(i - 1)
			}
			for _, key := range of[i] {
				c.Folds = append(c.Folds, fold(key, 1, 60))
			}
			return c
		})
		for i := range won {
			if i%10 == 9 && won[i] && won[i-1] {
				t.Errorf("changes %d and %d of one row both won", i-1, i)
			}
			for _, key := range of[i] {
				if won[i] {
					want[key]++
				}
			}
		}
		for _, key := range keys {
			t.equal(key, string(t.guard("folds", key).Value), strconv.Itoa(want[key]))
		}
	}},
}

// fold adds to the number that a guard holds, unless that would be above the limit.
func fold(key string, add, limit int) carillon.Fold {
	return carillon.Fold{Namespace: "folds", Key: key, Step: func(
		g carillon.Guard, _ carillon.Time,
	) (carillon.Guard, bool) {
		n, _ := strconv.Atoi(string(g.Value))
		g.Value = []byte(strconv.Itoa(n + add))
		return g, n+add <= limit
	}}
}

func (t *storeTest) note(i int) carillon.Change {
	return carillon.Change{Guards: []carillon.Guard{
		{Namespace: "folds", Key: fmt.Sprint(i), Value: []byte("x")},
	}}
}

// fold commits n changes at once through the ledgers of two nodes, and says which of them won.
func (t *storeTest) fold(n int, change func(i int) carillon.Change) []bool {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	var callers, running sync.WaitGroup
	nodes := [2]*ledger.Ledger{}
	for i := range nodes {
		nodes[i] = ledger.New(ledger.Config{
			Store: t.store, Flushers: 2, IDs: idgen.New(i+2, carillon.Never),
		})
		running.Go(func() { _ = nodes[i].Run(ctx) })
	}
	won := make([]bool, n)
	for i := range won {
		c := change(i)
		callers.Go(func() {
			lost, err := nodes[i%2].Commit(ctx, []carillon.Change{c})
			if err != nil {
				t.Error(err)
			}
			won[i] = len(lost) == 0
		})
	}
	callers.Wait()
	stop()
	running.Wait()
	return won
}
