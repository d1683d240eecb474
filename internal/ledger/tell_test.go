package ledger_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/ledger"
)

func TestTheNextCommitIsWrittenWhileListenersAreToldOfTheLast(t *testing.T) {
	s := newStore()
	var slow chan struct{}
	var mu sync.Mutex
	var told []string
	listen := func(committed []carillon.Change) {
		<-slow
		mu.Lock()
		defer mu.Unlock()
		for _, c := range committed {
			told = append(told, c.Guards[0].Key)
		}
	}
	within(t, ledger.Config{Store: s},
		func(t *testing.T, l *ledger.Ledger) {
			slow = make(chan struct{})
			var callers sync.WaitGroup
			var answered []string
			for _, key := range []string{"a", "b"} {
				callers.Go(func() {
					if lost, err := l.Commit(context.Background(), []carillon.Change{
						note(key, 0),
					}); err != nil ||
						len(lost) > 0 {
						t.Error(lost, err)
					}
					mu.Lock()
					defer mu.Unlock()
					if !slices.Contains(told, key) {
						t.Errorf("the caller hears of %s before the listeners do", key)
					}
					answered = append(answered, key)
				})
				synctest.Wait()
			}
			if n := s.sizes(); !slices.Equal(n, []int{1, 1}) {
				t.Errorf("commits of %v: the second waits for the listeners of the first", n)
			}
			mu.Lock()
			if len(answered) > 0 {
				t.Errorf("answered %v before the listeners were told", answered)
			}
			mu.Unlock()
			close(slow)
			callers.Wait()
			if !slices.Equal(told, []string{"a", "b"}) {
				t.Errorf("told of %v: commits are told in their order", told)
			}
		}, listen)
}
