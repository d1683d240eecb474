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
	mu         sync.Mutex
	queues     map[string]int
	namespaces map[string]int
}

func (w *weighed) SetWeights(weights map[string]int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queues = weights
}

func (w *weighed) SetNamespaceWeights(weights map[string]int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.namespaces = weights
}

// told checks the weights that the queue knows.
func (w *weighed) told(t *testing.T, queues, namespaces map[string]int) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if !maps.Equal(w.queues, queues) || !maps.Equal(w.namespaces, namespaces) {
		t.Errorf("the queue knows the weights %v of queues and %v of namespaces", w.queues, w.namespaces)
	}
}

// put writes a record of the catalog.
func put[T any](t *testing.T, n *Node, kind catalog.Kind[T], name catalog.Name, value T) {
	t.Helper()
	if _, err := kind.Write(t.Context(), n.catalog, name, "ann",
		func(_, next *catalog.Record[T], _ *carillon.Change) (remove bool, err error) {
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
		func(_, _ *catalog.Record[carillon.Limit], _ *carillon.Change) (remove bool, err error) {
			return true, nil
		})
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
	put(t, n, catalog.Namespaces, catalog.NamespaceName("red"), catalog.Namespace{Weight: 5})
	queue.told(t, map[string]int{"mail": 3}, map[string]int{"red": 5})
	setLimit(t, n, 1)
	stop()

	queue.SetWeights(nil)
	queue.SetNamespaceWeights(nil)
	n = open(t, cfg)
	queue.told(t, map[string]int{"mail": 3}, map[string]int{"red": 5})
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

func TestNamespacesShareTheSlotsOfANodeByTheirWeights(t *testing.T) {
	begun, end := make(chan string), make(chan struct{})
	n := open(t, Config{
		Data: t.TempDir(), Concurrency: 1,
		Handlers: map[string]executor.Handler{
			"test": func(_ context.Context, task executor.Task) error {
				begun <- task.Run.Namespace
				<-end
				return nil
			},
		},
	})
	defer start(t, n)()
	put(t, n, catalog.Namespaces, catalog.NamespaceName("blue"), catalog.Namespace{Weight: 3})
	if _, err := n.Submit(t.Context(), definition("test", 0)); err != nil {
		t.Fatal(err)
	}
	<-begun // the only slot is taken, so the other runs wait together
	for _, namespace := range []string{"red", "blue"} {
		many := make([]carillon.Definition, 100)
		for i := range many {
			many[i] = definition("test", 0)
		}
		if _, err := n.ledger.Submit(t.Context(), namespace, many); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "all of them wait in the queue", func() bool { return n.backend.Queue.Len() == 200 })
	places := map[string]int{}
	for range 100 {
		end <- struct{}{}
		places[<-begun]++
	}
	if blue := places["blue"]; blue < 73 || blue > 77 {
		t.Errorf("of 100 places 75 are for blue: %v", places)
	}
	close(end)
	for range 100 {
		<-begun
	}
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
