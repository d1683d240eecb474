package catalog_test

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/adapter/mem"
	"github.com/carillon-run/carillon/internal/catalog"
	"github.com/carillon-run/carillon/internal/ledger"
	"github.com/carillon-run/carillon/porttest"
)

// within runs a test in a bubble, with a function that starts a node on a store: its ledger and its catalog.
func within(t *testing.T, test func(t *testing.T, start func(carillon.Store) *catalog.Catalog)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		defer running.Wait()
		defer stop()
		test(t, func(store carillon.Store) *catalog.Catalog {
			l := ledger.New(ledger.Config{Store: store})
			c := catalog.New(catalog.Config{Store: store, Ledger: l})
			running.Go(func() { _ = l.Run(ctx) })
			if err := c.Load(ctx); err != nil {
				t.Fatal(err)
			}
			running.Go(func() { _ = c.Run(ctx) })
			return c
		})
	})
}

// put writes a value, whatever the record was.
func put[T any](
	ctx context.Context, c *catalog.Catalog, kind catalog.Kind[T], name catalog.Name, value T,
) (catalog.Record[T], error) {
	return kind.Write(ctx, c, name, "ann", func(_, next *catalog.Record[T], _ *carillon.Change) (remove bool, err error) {
		next.Value = value
		return false, nil
	})
}

// remove removes a record.
func remove[T any](t *testing.T, c *catalog.Catalog, kind catalog.Kind[T], name catalog.Name) {
	t.Helper()
	if _, err := kind.Write(t.Context(), c, name, "bob", func(
		was, _ *catalog.Record[T], _ *carillon.Change,
	) (bool, error) {
		if was == nil {
			t.Errorf("%s is not there", name.Name)
		}
		return true, nil
	}); err != nil {
		t.Fatal(err)
	}
}

func mail(of string) catalog.Name { return catalog.Name{Namespace: "default", Name: of} }

func setWeight(t *testing.T, c *catalog.Catalog, queue string, weight int) catalog.Record[catalog.Queue] {
	t.Helper()
	r, err := put(t.Context(), c, catalog.Queues, mail(queue), catalog.Queue{Weight: weight})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// weightOf is the weight that a catalog knows; 0: none.
func weightOf(c *catalog.Catalog, queue string) int {
	if r := c.Now().Queues.Get("default", queue); r != nil {
		return r.Value.Weight
	}
	return 0
}

func TestAWriteIsInForceHereAtOnceAndElsewhereWithinASecond(t *testing.T) {
	within(t, func(t *testing.T, start func(carillon.Store) *catalog.Catalog) {
		store := mem.NewStore()
		here, there := start(store), start(store)
		written := setWeight(t, here, "mail", 3)
		if got := here.Now().Queues.Get("default", "mail"); got == nil || *got != written {
			t.Errorf("here it is %+v, want %+v", got, written)
		}
		if written.By != "ann" || written.At == 0 || written.Rev != 1 {
			t.Errorf("written as %+v", written)
		}
		time.Sleep(time.Second)
		if got := there.Now().Queues.Get("default", "mail"); got == nil || *got != written {
			t.Errorf("there it is %+v, want %+v", got, written)
		}
		if got := weightOf(start(store), "mail"); got != 3 {
			t.Errorf("a node that starts later knows the weight %d", got)
		}
		remove(t, there, catalog.Queues, mail("mail"))
		if got := weightOf(there, "mail"); got != 0 {
			t.Errorf("it is removed there, and its weight is %d", got)
		}
		time.Sleep(time.Second)
		if got := weightOf(here, "mail"); got != 0 {
			t.Errorf("it is removed, and its weight is %d here", got)
		}
	})
}

func TestListenersHearOfEverySnapshotInOrder(t *testing.T) {
	store := mem.NewStore()
	within(t, func(t *testing.T, start func(carillon.Store) *catalog.Catalog) {
		writer := start(store)
		setWeight(t, writer, "mail", 3)
		reader := catalog.New(catalog.Config{Store: store})
		var heard []int
		reader.Listen(func(before, after *catalog.Snapshot) {
			if reader.Now() != after {
				t.Error("it is told before the snapshot is in force")
			}
			heard = append(heard, len(before.Queues.All("default")), after.Weights()["mail"])
		})
		for _, weight := range []int{4, 4, 5} {
			if err := reader.Load(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := reader.Load(t.Context()); err != nil { // nothing has changed
				t.Fatal(err)
			}
			setWeight(t, writer, "mail", weight)
		}
		if want := []int{0, 3, 1, 4, 1, 4}; !reflect.DeepEqual(heard, want) {
			t.Errorf("heard %v, want %v", heard, want)
		}
	})
}

func TestEditsOfTwoNodesDoNotGetLost(t *testing.T) {
	within(t, func(t *testing.T, start func(carillon.Store) *catalog.Catalog) {
		store := mem.NewStore()
		nodes := []*catalog.Catalog{start(store), start(store)}
		var writers sync.WaitGroup
		for i := range 40 {
			writers.Go(func() {
				_, err := catalog.Queues.Write(t.Context(), nodes[i%2], mail("mail"), "ann",
					func(
						was, next *catalog.Record[catalog.Queue], _ *carillon.Change,
					) (remove bool, err error) {
						if was != nil {
							next.Value = was.Value
						}
						next.Value.Weight++
						return false, nil
					})
				if err != nil {
					t.Error(err)
				}
			})
		}
		writers.Wait()
		time.Sleep(time.Second)
		for _, node := range nodes {
			if got := weightOf(node, "mail"); got != 40 {
				t.Errorf("40 edits came to %d", got)
			}
		}
	})
}

func TestWritesOfDifferentRecordsAreAllInForce(t *testing.T) {
	within(t, func(t *testing.T, start func(carillon.Store) *catalog.Catalog) {
		store := mem.NewStore()
		nodes := []*catalog.Catalog{start(store), start(store)}
		names := []string{"a", "b", "c", "d", "e", "f"}
		var writers sync.WaitGroup
		for i, name := range names {
			writers.Go(func() { setWeight(t, nodes[i%2], name, i+1) })
		}
		writers.Wait()
		time.Sleep(time.Second)
		for _, node := range nodes {
			for i, name := range names {
				if got := weightOf(node, name); got != i+1 {
					t.Errorf("%s has the weight %d, want %d", name, got, i+1)
				}
			}
		}
	})
}

func TestAnEditThatFailsWritesNothing(t *testing.T) {
	within(t, func(t *testing.T, start func(carillon.Store) *catalog.Catalog) {
		c, refused := start(mem.NewStore()), errors.New("no")
		_, err := catalog.Queues.Write(t.Context(), c, mail("mail"), "ann",
			func(_, next *catalog.Record[catalog.Queue], _ *carillon.Change) (remove bool, err error) {
				next.Value.Weight = 3
				return false, refused
			})
		if !errors.Is(err, refused) || weightOf(c, "mail") != 0 {
			t.Errorf("%v, and the weight is %d", err, weightOf(c, "mail"))
		}
	})
}

func TestARemovedRecordGoesOnWithItsRevision(t *testing.T) {
	within(t, func(t *testing.T, start func(carillon.Store) *catalog.Catalog) {
		store := mem.NewStore()
		c := start(store)
		setWeight(t, c, "mail", 3)
		remove(t, c, catalog.Queues, mail("mail"))
		if again := setWeight(t, c, "mail", 5); again.Rev != 3 {
			t.Errorf("made again it has revision %d", again.Rev)
		}
		forget := func() {
			now := carillon.Now().Add(2 * carillon.GuardGrace)
			if _, err := store.Forget(t.Context(), carillon.DefaultRetention, now, 100); err != nil {
				t.Fatal(err)
			}
		}
		forget()
		if got := weightOf(start(store), "mail"); got != 5 {
			t.Errorf("a record in force was forgotten: its weight is %d", got)
		}
		remove(t, c, catalog.Queues, mail("mail"))
		forget()
		if again := setWeight(t, c, "mail", 6); again.Rev != 1 {
			t.Errorf("a removed record is kept for ever: made again it has revision %d", again.Rev)
		}
	})
}

func TestNamesWithSlashesStayApart(t *testing.T) {
	within(t, func(t *testing.T, start func(carillon.Store) *catalog.Catalog) {
		store := mem.NewStore()
		c := start(store)
		names := []catalog.Name{{"a", "b/c"}, {"a/b", "c"}, {"a", "b"}, {"a%2Fb", "c"}}
		for i, name := range names {
			if _, err := put(t.Context(), c, catalog.Queues, name, catalog.Queue{Weight: i + 1}); err != nil {
				t.Fatal(err)
			}
		}
		known := start(store).Now()
		for i, name := range names {
			if r := known.Queues.Get(name.Namespace, name.Name); r == nil || r.Value.Weight != i+1 {
				t.Errorf("%+v: %+v", name, r)
			}
		}
		if all := known.Queues.All("a"); len(all) != 2 || all[0].Name.Name != "b" || all[1].Name.Name != "b/c" {
			t.Errorf("namespace a has %d records", len(all))
		}
	})
}

func TestAnIdempotencyKeyIsHonoured(t *testing.T) {
	within(t, func(t *testing.T, start func(carillon.Store) *catalog.Catalog) {
		c := start(mem.NewStore())
		once, err := carillon.NewOnce("key", "k")
		if err != nil {
			t.Fatal(err)
		}
		once.Request = "r"
		once.Answer = func(*carillon.Job, *carillon.Run) (json.RawMessage, error) {
			return json.RawMessage(`"done"`), nil
		}
		ctx := once.Context(t.Context())
		if _, err := put(ctx, c, catalog.Queues, mail("mail"), catalog.Queue{Weight: 3}); err != nil {
			t.Fatal(err)
		}
		setWeight(t, c, "mail", 4)
		_, err = put(ctx, c, catalog.Queues, mail("mail"), catalog.Queue{Weight: 3})
		var repeated *carillon.RepeatedError
		if !errors.As(err, &repeated) || string(repeated.Use.Answer) != `"done"` || weightOf(c, "mail") != 4 {
			t.Errorf("%v, and the weight is %d", err, weightOf(c, "mail"))
		}
	})
}

func TestWhileTheStoreIsAwayTheLastSnapshotStays(t *testing.T) {
	within(t, func(t *testing.T, start func(carillon.Store) *catalog.Catalog) {
		store := mem.NewStore()
		writer := start(store)
		setWeight(t, writer, "mail", 3)
		// The first two calls load the records; then the store is away for ten looks.
		away := porttest.Failing(store, "Guards", 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)
		reader := start(away)
		setWeight(t, writer, "mail", 4)
		time.Sleep(1300 * time.Millisecond)
		if got := weightOf(reader, "mail"); got != 3 {
			t.Errorf("the store is away, and the weight is %d", got)
		}
		time.Sleep(300 * time.Millisecond)
		if got := weightOf(reader, "mail"); got != 4 {
			t.Errorf("the store is back, and the weight is %d", got)
		}
	})
}

func TestAReadThatFailsHalfwayIsRepeated(t *testing.T) {
	within(t, func(t *testing.T, start func(carillon.Store) *catalog.Catalog) {
		store := mem.NewStore()
		writer := start(store)
		reader := start(porttest.Failing(store, "Guards", 4)) // after load: the epoch, then the records
		setWeight(t, writer, "mail", 4)
		time.Sleep(550 * time.Millisecond)
		if got := weightOf(reader, "mail"); got != 0 {
			t.Errorf("the records could not be read, and the weight is %d", got)
		}
		time.Sleep(100 * time.Millisecond) // after a look that failed the next one comes sooner
		if got := weightOf(reader, "mail"); got != 4 {
			t.Errorf("the weight is %d", got)
		}
	})
}

func TestAWriteIsInForceEvenIfItCannotBeReadAgain(t *testing.T) {
	within(t, func(t *testing.T, start func(carillon.Store) *catalog.Catalog) {
		// Load reads twice. The write reads the record and the epoch that it folds, then the epoch again.
		store := porttest.Failing(mem.NewStore(), "Guards", 5)
		c := start(store)
		setWeight(t, c, "mail", 3)
		if got := weightOf(c, "mail"); got != 3 || store.Calls("Guards") != 5 {
			t.Errorf("the weight is %d after %d reads", got, store.Calls("Guards"))
		}
		time.Sleep(time.Second)
		if got := weightOf(c, "mail"); got != 3 {
			t.Errorf("the weight is %d", got)
		}
	})
}

func TestAWriteWithoutAnAnswerIsFollowedLikeAnyOther(t *testing.T) {
	within(t, func(t *testing.T, start func(carillon.Store) *catalog.Catalog) {
		c := start(porttest.Unknown(mem.NewStore(), "Commit", 1))
		_, err := put(t.Context(), c, catalog.Queues, mail("mail"), catalog.Queue{Weight: 3})
		if !errors.Is(err, porttest.ErrInjected) {
			t.Errorf("%v", err)
		}
		time.Sleep(time.Second)
		if got := weightOf(c, "mail"); got != 3 {
			t.Errorf("it is written, and the weight is %d", got)
		}
	})
}

func TestANodeDoesNotStartWithoutTheRecords(t *testing.T) {
	c := catalog.New(catalog.Config{Store: porttest.Failing(mem.NewStore(), "Guards", 2)})
	if err := c.Load(t.Context()); !errors.Is(err, porttest.ErrInjected) {
		t.Errorf("%v", err)
	}
}

func TestAnIdleCatalogReadsOneGuardTwiceASecond(t *testing.T) {
	within(t, func(t *testing.T, start func(carillon.Store) *catalog.Catalog) {
		store := porttest.Failing(mem.NewStore(), "Forget")
		start(store)
		before := store.Calls("Guards")
		time.Sleep(10*time.Second + time.Millisecond)
		if got := store.Calls("Guards") - before; got != 20 {
			t.Errorf("%d reads in ten seconds", got)
		}
	})
}
