package catalog_test

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/adapter/mem"
	"github.com/carillon-run/carillon/internal/catalog"
)

func setLimit(t *testing.T, c *catalog.Catalog, of carillon.LimitOf, key string, concurrency int) {
	t.Helper()
	l := carillon.Limit{Of: of, Key: key, Concurrency: concurrency}
	if err := l.Admit("limit"); err != nil {
		t.Fatal(err)
	}
	if _, err := put(t.Context(), c, catalog.Limits, mail(catalog.LimitName(of, key)), l); err != nil {
		t.Fatal(err)
	}
}

func TestLimitsOfAJobAreItsOwnAndThoseOfItsQueueTypeAndNamespace(t *testing.T) {
	within(t, func(t *testing.T, start func(carillon.Store) *catalog.Catalog) {
		store := mem.NewStore()
		c := start(store)
		job := carillon.Job{Namespace: "default", Definition: carillon.Definition{
			Queue: "mail", Type: "mail", Limits: []carillon.Limit{{Key: "k", Concurrency: 9, Weight: 1}},
		}}
		setLimit(t, c, carillon.LimitQueue, "other", 1)
		if got := c.LimitsOf(&job); !reflect.DeepEqual(got, job.Limits) {
			t.Errorf("without limits of operators: %+v", got)
		}
		setLimit(t, c, carillon.LimitNamespace, "default", 4)
		setLimit(t, c, carillon.LimitType, "mail", 3)
		setLimit(t, c, carillon.LimitQueue, "mail", 2)
		want := []carillon.Limit{
			{Key: "k", Concurrency: 9, Weight: 1},
			{Of: carillon.LimitQueue, Key: "mail", Concurrency: 2, Weight: 1},
			{Of: carillon.LimitType, Key: "mail", Concurrency: 3, Weight: 1},
			{Of: carillon.LimitNamespace, Key: "default", Concurrency: 4, Weight: 1},
		}
		for _, c := range []*catalog.Catalog{c, start(store)} {
			if got := c.LimitsOf(&job); !reflect.DeepEqual(got, want) {
				t.Errorf("%+v, want %+v", got, want)
			}
		}
		if len(job.Limits) != 1 {
			t.Errorf("the definition has got %d limits", len(job.Limits))
		}
		job.Namespace = "other"
		if got := c.LimitsOf(&job); len(got) != 1 {
			t.Errorf("a job of another namespace has %+v", got)
		}
	})
}

func TestWithoutLimitsOfOperatorsNothingIsAllocated(t *testing.T) {
	c := catalog.New(catalog.Config{Store: mem.NewStore()})
	job := carillon.Job{Definition: carillon.Definition{Limits: make([]carillon.Limit, 1)}}
	if n := testing.AllocsPerRun(100, func() { c.LimitsOf(&job) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestTheLinesOfLimitsThatChangedAreNamed(t *testing.T) {
	within(t, func(t *testing.T, start func(carillon.Store) *catalog.Catalog) {
		store := mem.NewStore()
		here, there := start(store), start(store)
		setLimit(t, here, carillon.LimitQueue, "same", 1)
		setLimit(t, here, carillon.LimitQueue, "raised", 1)
		setLimit(t, here, carillon.LimitType, "removed", 1)
		time.Sleep(time.Second)
		before := there.Now()
		setLimit(t, here, carillon.LimitQueue, "raised", 2)
		setLimit(t, here, carillon.LimitNamespace, "default", 5)
		remove(t, here, catalog.Limits, mail("type/removed"))
		setWeight(t, here, "mail", 4)
		time.Sleep(time.Second)
		lines := there.Now().Lines(before)
		slices.SortFunc(lines, func(a, b carillon.HoldName) int { return strings.Compare(a.Hold, b.Hold) })
		want := []carillon.HoldName{
			{Namespace: "default", Hold: "limit/namespace/default"},
			{Namespace: "default", Hold: "limit/queue/raised"},
			{Namespace: "default", Hold: "limit/type/removed"},
		}
		if !reflect.DeepEqual(lines, want) {
			t.Errorf("%v, want %v", lines, want)
		}
	})
}

func TestOfTheWeightsOfNamespacesTheHighestCounts(t *testing.T) {
	within(t, func(t *testing.T, start func(carillon.Store) *catalog.Catalog) {
		c := start(mem.NewStore())
		for namespace, weight := range map[string]int{"a": 2, "b": 7, "c": 3} {
			name, value := catalog.Name{Namespace: namespace, Name: "mail"}, catalog.Queue{Weight: weight}
			if _, err := put(t.Context(), c, catalog.Queues, name, value); err != nil {
				t.Fatal(err)
			}
		}
		if got := c.Now().Weights(); !reflect.DeepEqual(got, map[string]int{"mail": 7}) {
			t.Errorf("%v", got)
		}
	})
}

func TestTheWeightOfANamespaceIsKnownOnEveryNodeUntilItIsRemoved(t *testing.T) {
	within(t, func(t *testing.T, start func(carillon.Store) *catalog.Catalog) {
		store := mem.NewStore()
		here, there := start(store), start(store)
		for namespace, weight := range map[string]int{"default": 3, "a/b": 7, "gone": 2} {
			name, value := catalog.NamespaceName(namespace), catalog.Namespace{Weight: weight}
			if _, err := put(t.Context(), here, catalog.Namespaces, name, value); err != nil {
				t.Fatal(err)
			}
		}
		remove(t, here, catalog.Namespaces, catalog.NamespaceName("gone"))
		setWeight(t, here, "mail", 5) // of a queue, which is another thing
		time.Sleep(time.Second)
		want := map[string]int{"default": 3, "a/b": 7}
		for _, c := range []*catalog.Catalog{here, there, start(store)} {
			if got := c.Now().NamespaceWeights(); !reflect.DeepEqual(got, want) {
				t.Errorf("%v, want %v", got, want)
			}
			if all := c.Now().Namespaces.All("a/b"); len(all) != 1 || all[0].By != "ann" || all[0].At == 0 {
				t.Errorf("records %+v", all)
			}
		}
	})
}

func TestRecordsThatCannotBeReadAreLeftOut(t *testing.T) {
	within(t, func(t *testing.T, start func(carillon.Store) *catalog.Catalog) {
		store := mem.NewStore()
		setWeight(t, start(store), "mail", 3)
		for key, value := range map[string]string{
			"catalog/queue/default/torn":     `{"value":`,
			"catalog/queue/default/type":     `{"value":{"weight":"much"}}`,
			"catalog/limit/default/kindless": `{"value":{"concurrency":1}}`,
			"catalog/later/default/x":        `{"value":[]}`, // of a later version
			"catalog/short":                  `1`,
			"other":                          `1`,
		} {
			lost, err := store.Commit(t.Context(), []carillon.Change{{Guards: []carillon.Guard{
				{Namespace: catalog.Space, Key: key, Value: []byte(value)},
			}}})
			if err != nil || len(lost) > 0 {
				t.Fatal(lost, err)
			}
		}
		known := start(store).Now()
		if got := known.Weights(); !reflect.DeepEqual(got, map[string]int{"mail": 3}) {
			t.Errorf("%v", got)
		}
		if got := known.Limits.All("default"); len(got) != 0 {
			t.Errorf("%v", got)
		}
	})
}

func TestARecordThatCannotBeReadCanBeSetAndRemoved(t *testing.T) {
	within(t, func(t *testing.T, start func(carillon.Store) *catalog.Catalog) {
		store := mem.NewStore()
		if _, err := store.Commit(t.Context(), []carillon.Change{{Guards: []carillon.Guard{
			{Namespace: catalog.Space, Key: "catalog/queue/default/torn", Value: []byte(`{"value":`)},
		}}}); err != nil {
			t.Fatal(err)
		}
		c := start(store)
		if _, err := catalog.Queues.Write(t.Context(), c, mail("torn"), "ann", func(
			was, _ *catalog.Record[catalog.Queue], _ *carillon.Change,
		) (remove bool, err error) {
			if was == nil {
				return false, carillon.ErrNotFound
			}
			return true, nil
		}); !errors.Is(err, carillon.ErrNotFound) {
			t.Errorf("it is not in force, and to remove it is %v", err)
		}
		if set := setWeight(t, c, "torn", 3); set.Rev != 2 || weightOf(c, "torn") != 3 {
			t.Errorf("set to %+v, in force is %d", set, weightOf(c, "torn"))
		}
		remove(t, c, catalog.Queues, mail("torn"))
	})
}
