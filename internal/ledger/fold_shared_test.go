package ledger_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/adapter/mem"
	"github.com/carillon-run/carillon/internal/ledger"
)

// distant is a store behind a network, with a row lock as a database server has it: a commit waits for the
// lock, loses at once if a guard is no longer as expected, and else holds the lock while it is synced.
type distant struct {
	*mem.Store
	row chan struct{}
}

func newDistant() *distant { return &distant{mem.NewStore(), make(chan struct{}, 1)} }

func (d *distant) trip() { time.Sleep(500*time.Microsecond + rand.N(250*time.Microsecond)) }

func (d *distant) Guards(ctx context.Context, q carillon.GuardQuery) ([]carillon.Guard, error) {
	d.trip()
	defer d.trip()
	return d.Store.Guards(ctx, q)
}

func (d *distant) Runs(ctx context.Context, ids []carillon.RunID, whole bool) ([]carillon.Run, error) {
	d.trip()
	defer d.trip()
	return d.Store.Runs(ctx, ids, whole)
}

func (d *distant) Commit(ctx context.Context, changes []carillon.Change) ([]int, error) {
	d.trip()
	defer d.trip()
	d.row <- struct{}{}
	defer func() { <-d.row }()
	if d.stands(ctx, changes) {
		time.Sleep(time.Millisecond)
	}
	return d.Store.Commit(ctx, changes)
}

func (d *distant) stands(ctx context.Context, changes []carillon.Change) bool {
	for i := range changes {
		for _, g := range changes[i].Guards {
			now, _ := d.Store.Guards(ctx, carillon.GuardQuery{Namespace: g.Namespace, Keys: []string{g.Key}})
			if len(now) == 0 && g.Rev != 0 || len(now) > 0 && now[0].Rev != g.Rev {
				return false
			}
		}
	}
	return true
}

// tally is what became of the changes of callers that commit one after the other for ten seconds.
type tally struct{ won, lost atomic.Int64 }

func (b *tally) commit(ctx context.Context, l *ledger.Ledger, name string, folds ...carillon.Fold) {
	for i := 0; ctx.Err() == nil; i++ {
		change := note(fmt.Sprint(name, i), 0)
		change.Folds = folds
		lost, err := l.Commit(ctx, []carillon.Change{change})
		if err != nil {
			return
		}
		b.won.Add(int64(1 - len(lost)))
		b.lost.Add(int64(len(lost)))
		time.Sleep(rand.N(2 * time.Millisecond))
	}
}

// A node that remembers a guard needs one round trip for a commit, and one that has to read it more.
func TestANodeThatFoldsAGuardDoesNotKeepItFromAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newDistant()
		ctx, stop := context.WithCancel(context.Background())
		var running sync.WaitGroup
		var nodes [2]tally
		for n := range nodes {
			l := ledger.New(ledger.Config{Store: s})
			running.Go(func() { _ = l.Run(ctx) })
			time.Sleep(100 * time.Millisecond) // the second one finds the first one busy
			for caller := range 20 {
				running.Go(func() {
					nodes[n].commit(ctx, l, fmt.Sprint("note/", n, "/", caller, "/"), take("limit", 1<<30))
				})
			}
		}
		time.Sleep(10 * time.Second)
		stop()
		running.Wait()
		for n := range nodes {
			won, lost := nodes[n].won.Load(), nodes[n].lost.Load()
			if other := nodes[1-n].won.Load(); won < other/4 || lost > won/100 {
				t.Errorf("node %d: %d won, %d of the other node did, and %d lost though no fold said no",
					n, won, other, lost)
			}
		}
	})
}

// Jobs with keys of their own in a namespace with a limit fold the guard of that limit last.
func TestKeysWithASharedLimitDoNotKeepEachOtherFromIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newDistant()
		ctx, stop := context.WithCancel(context.Background())
		var running sync.WaitGroup
		var callers [40]tally
		l := ledger.New(ledger.Config{Store: s, Flushers: 2})
		running.Go(func() { _ = l.Run(ctx) })
		for i := range callers {
			own := take(fmt.Sprint("limit/key/customer-", i), 1<<30)
			running.Go(func() {
				shared := take("limit/namespace/default", 1<<30)
				callers[i].commit(ctx, l, fmt.Sprint("note/", i, "/"), own, shared)
			})
		}
		time.Sleep(10 * time.Second)
		stop()
		running.Wait()
		all, most := int64(0), callers[0].won.Load()
		for i := range callers {
			won, lost := callers[i].won.Load(), callers[i].lost.Load()
			if all += won; won < most/2 || lost > 0 {
				t.Errorf("customer %d: %d won, %d of the first one did, and %d lost though no fold said no",
					i, won, most, lost)
			}
		}
		// A call takes 4.5 ms, of which the commit takes 2.5. Two goroutines that write the guard by turns
		// make each other lose, and do half as much.
		if all < 60_000 {
			t.Errorf("%d changes won in ten seconds, want about 88,000", all)
		}
	})
}
