package porttest

import (
	"fmt"

	"github.com/carillon-run/carillon"
)

var storeGuards = []storeCase{
	{"guards are found by key, of their own namespace only", func(t *storeTest) {
		t.putGuards("a", "x", "y")
		t.putGuards("b", "x")
		t.equal(
			"found", t.guardKeys(carillon.GuardQuery{Namespace: "a", Keys: []string{"y", "x", "none"}}),
			[]string{"a x", "a y"},
		)
		t.equal(
			"found", t.guardKeys(carillon.GuardQuery{Namespace: "b", Keys: []string{"x", "y"}}),
			[]string{"b x"},
		)
	}},
	{"guards are found by prefix, of their own namespace only", func(t *storeTest) {
		t.putGuards("a", "limit", "limit/", "limit/x", "limit/y/z", "limit0", "lim", "%", "_", "é/1", "é")
		t.putGuards("b", "limit/x")
		for prefix, want := range map[string][]string{
			"limit/": {"a limit/", "a limit/x", "a limit/y/z"},
			"é":      {"a é", "a é/1"},
			"%":      {"a %"},
			"_":      {"a _"},
			"none":   nil,
		} {
			t.equal(prefix, t.guardKeys(carillon.GuardQuery{Namespace: "a", Prefix: prefix}), want)
		}
		t.equal("all", len(t.guardKeys(carillon.GuardQuery{Namespace: "a"})), 10)
	}},
	{"a guard without a value is removed, and may come again", func(t *storeTest) {
		t.putGuards("a", "x")
		t.win(carillon.Change{Guards: []carillon.Guard{{Namespace: "a", Key: "x", Rev: 1}}})
		t.equal("guard", t.guard("a", "x"), (*carillon.Guard)(nil))
		t.putGuards("a", "x")
		t.equal("revision", t.guard("a", "x").Rev, int32(1))
	}},
	{"an empty value is a value", func(t *storeTest) {
		t.win(carillon.Change{Guards: []carillon.Guard{{Namespace: "a", Key: "x", Value: []byte{}}}})
		if g := t.guard("a", "x"); g == nil || g.Value == nil || len(g.Value) > 0 {
			t.Fatalf("got %+v", g)
		}
	}},
	{"a value may be any bytes, and long", func(t *storeTest) {
		value := make([]byte, 100_000)
		for i := range value {
			value[i] = byte(i)
		}
		t.win(carillon.Change{Guards: []carillon.Guard{{Namespace: "a", Key: "x", Value: value}}})
		t.equal("value", t.guard("a", "x").Value, value)
	}},
}

func (t *storeTest) putGuards(namespace string, keys ...string) {
	t.Helper()
	var c carillon.Change
	for _, key := range keys {
		c.Guards = append(c.Guards, carillon.Guard{Namespace: namespace, Key: key, Value: []byte(key)})
	}
	t.win(c)
}

func (t *storeTest) guardKeys(q carillon.GuardQuery) (found []string) {
	t.Helper()
	guards, err := t.store.Guards(t.Context(), q)
	t.must(err)
	for _, g := range sortGuards(guards) {
		t.equal("value", string(g.Value), g.Key)
		found = append(found, fmt.Sprint(g.Namespace, " ", g.Key))
	}
	return found
}
