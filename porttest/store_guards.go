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
	{"a guard that does not exist is not removed", func(t *storeTest) {
		remove := carillon.Change{Guards: []carillon.Guard{{Namespace: "a", Key: "x"}}}
		t.lose(remove)
		t.putGuards("a", "x")
		t.lose(remove)
		t.equal("revision", t.guard("a", "x").Rev, int32(1))
	}},
	{"a guard that is only compared stays as it is", func(t *storeTest) {
		t.putGuards("a", "x")
		at := func(key string, rev int32) carillon.Change {
			return carillon.Change{
				Guards:   []carillon.Guard{{Namespace: "b", Key: fmt.Sprint(key, rev), Value: []byte("v")}},
				Compared: []carillon.GuardRev{{Namespace: "a", Key: key, Rev: rev}},
			}
		}
		t.win(at("x", 1))
		t.equal("revision", t.guard("a", "x").Rev, int32(1))
		t.win(at("none", 0))
		t.equal("guard", t.guard("a", "none"), (*carillon.Guard)(nil))
		for _, c := range []carillon.Change{at("x", 0), at("x", 2), at("none", 1)} {
			t.lose(c)
			t.equal("guard", t.guard("b", c.Guards[0].Key), (*carillon.Guard)(nil))
		}
	}},
	{"many changes of one commit compare a guard, before one that writes it", func(t *storeTest) {
		t.putGuards("a", "x")
		compare := func(key string) carillon.Change {
			return carillon.Change{
				Guards:   []carillon.Guard{{Namespace: "b", Key: key, Value: []byte("v")}},
				Compared: []carillon.GuardRev{{Namespace: "a", Key: "x", Rev: 1}},
			}
		}
		write := carillon.Change{
			Guards: []carillon.Guard{{Namespace: "a", Key: "x", Rev: 1, Value: []byte("x")}},
		}
		lost, err := t.store.Commit(t.Context(), []carillon.Change{
			compare("1"), compare("2"), write, compare("3"), write, compare("4"),
		})
		t.must(err)
		t.equal("lost", lost, []int{3, 4, 5})
		t.equal("revision", t.guard("a", "x").Rev, int32(2))
		if t.guard("b", "2") == nil || t.guard("b", "3") != nil {
			t.Fatal("a change that compared the guard was written, or left out, against its verdict")
		}
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
