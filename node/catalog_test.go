package node

import (
	"context"
	"maps"
	"strings"
	"sync"
	"testing"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/adapter/mem"
	"github.com/carillon-run/carillon/executor"
	"github.com/carillon-run/carillon/internal/catalog"
	"github.com/carillon-run/carillon/porttest"
)

// weighed is a queue that keeps the weights that it is told.
type weighed struct {
	carillon.Queue
	mu      sync.Mutex
	weights map[string]int
}

func (w *weighed) SetWeights(weights map[string]int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.weights = weights
}

func (w *weighed) told(want map[string]int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Equal(w.weights, want)
}

// put writes a record of the catalog.
func put[T any](t *testing.T, n *Node, kind catalog.Kind[T], name catalog.Name, value T) {
	t.Helper()
	if _, err := kind.Write(t.Context(), n.catalog, name, "ann",
		func(_, next *catalog.Record[T]) (remove bool, err error) {
			next.Value = value
			return false, nil
		}); err != nil {
		t.Fatal(err)
	}
}

func named(name string) catalog.Name {
	return catalog.Name{Namespace: carillon.DefaultNamespace, Name: name}
}

func setLimit(t *testing.T, n *Node, concurrency int) {
	t.Helper()
	put(t, n, catalog.Limits, named("queue/default"), carillon.Limit{
		Of: carillon.LimitQueue, Key: "default", Concurrency: concurrency, Weight: 1,
	})
}

func removeLimit(t *testing.T, n *Node) {
	t.Helper()
	_, err := catalog.Limits.Write(t.Context(), n.catalog, named("queue/default"), "ann",
		func(_, _ *catalog.Record[carillon.Limit]) (remove bool, err error) { return true, nil })
	if err != nil {
		t.Fatal(err)
	}
}

func TestWhatOperatorsSetIsInForceAfterARestart(t *testing.T) {
	queue := &weighed{Queue: mem.NewQueue(mem.QueueConfig{})}
	begun, end := make(chan struct{}, 10), make(chan struct{})
	cfg := Config{
		Data: t.TempDir(), Backend: Backend{Queue: queue}, Concurrency: 8,
		Handlers: map[string]executor.Handler{
			"test": func(context.Context, executor.Task) error { begun <- struct{}{}; <-end; return nil },
		},
	}
	n := open(t, cfg)
	stop := start(t, n)
	put(t, n, catalog.Queues, named("mail"), catalog.Queue{Weight: 3})
	if !queue.told(map[string]int{"mail": 3}) {
		t.Errorf("the queue knows the weights %v", queue.weights)
	}
	setLimit(t, n, 1)
	stop()

	queue.SetWeights(nil)
	n = open(t, cfg)
	if !queue.told(map[string]int{"mail": 3}) {
		t.Errorf("after a restart the queue knows the weights %v", queue.weights)
	}
	defer start(t, n)()
	three := []carillon.Definition{definition("test", 0), definition("test", 0), definition("test", 0)}
	if _, err := n.Submit(t.Context(), three...); err != nil {
		t.Fatal(err)
	}
	<-begun
	until(t, "the other runs wait for the limit", func() bool {
		counts, err := n.Store().Counts(t.Context(), carillon.DefaultNamespace, carillon.Now())
		held := 0
		for _, c := range counts {
			if c.Hold == "limit/queue/default" {
				held += c.Runs
			}
		}
		return err == nil && held == 2
	})
	if len(begun) > 0 {
		t.Error("the limit does not hold")
	}
	removeLimit(t, n)
	<-begun
	<-begun
	close(end)
}

func TestANodeWithoutTheSettingsDoesNotStart(t *testing.T) {
	named := 0
	for call := 1; ; call++ { // a node reads other guards too before it starts
		store := porttest.Failing(mem.NewStore(), "Guards", call)
		n, err := Open(t.Context(), Config{Data: t.TempDir(), Logger: quiet, Backend: Backend{Store: store}})
		if err == nil {
			n.shut()
			break
		}
		if strings.Contains(err.Error(), "read the catalog") {
			named++
		}
	}
	if named != 2 {
		t.Errorf("of the reads of the epoch and of the records %d stop the start", named)
	}
}

// Each of two nodes hears of what was set on the other, and they keep to a limit together.
func TestNodesOfAClusterKnowWhatWasSetOnOneOfThem(t *testing.T) {
	onBoth(t, func(t *testing.T, store string) {
		begun, end := make(chan struct{}, 100), make(chan struct{})
		handle := func(ctx context.Context, _ executor.Task) error {
			begun <- struct{}{}
			select {
			case <-end:
			case <-ctx.Done():
			}
			return nil
		}
		a, b := member(t, store, "default", handle), member(t, store, "default", handle)
		setLimit(t, a, 3)
		until(t, "the other node knows the limit", func() bool {
			return b.catalog.Now().Limits.Get(carillon.DefaultNamespace, "queue/default") != nil
		})
		for i := range 8 {
			if _, err := []*Node{a, b}[i%2].Submit(t.Context(), definition("test", 0)); err != nil {
				t.Fatal(err)
			}
		}
		held := func() (held, running int) {
			counts, err := a.Store().Counts(t.Context(), carillon.DefaultNamespace, carillon.Now())
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range counts {
				if c.Hold != "" {
					held += c.Runs
				}
				if c.State.Held() {
					running += c.Runs
				}
			}
			return held, running
		}
		until(t, "three run, and the others wait for the limit", func() bool {
			held, running := held()
			if running > 3 {
				t.Fatalf("%d runs are performed", running)
			}
			return held == 5 && running == 3
		})
		removeLimit(t, b)
		until(t, "all of them run", func() bool { _, running := held(); return running == 8 })
		close(end)
		for range 8 {
			<-begun
		}
	})
}
