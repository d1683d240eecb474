package porttest

import (
	"bytes"
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
	{"without a namespace, guards of all namespaces are found by prefix", func(t *storeTest) {
		t.putGuards("a", "limit/x", "limit", "m")
		t.putGuards("b", "other/x")
		t.putGuards("é", "limit/y", "limit/x")
		t.equal("limit/", t.guardKeys(carillon.GuardQuery{Prefix: "limit/"}),
			[]string{"a limit/x", "é limit/x", "é limit/y"})
		t.equal("all", len(t.guardKeys(carillon.GuardQuery{})), 6)
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
	{"a guard keeps the expiry that it was last written with", func(t *storeTest) {
		t.putGuards("a", "none")
		g := carillon.Guard{Namespace: "a", Key: "x", Value: []byte("1"), Expires: t.now + 5}
		for _, expires := range []carillon.Time{t.now + 5, t.now + 7, t.now - 3, 0, t.now} {
			g.Expires = expires
			t.win(carillon.Change{Guards: []carillon.Guard{g}})
			g.Rev++
			t.equal("by key", t.guard("a", "x"), &g)
		}
		all, err := t.store.Guards(t.Context(), carillon.GuardQuery{Namespace: "a"})
		t.must(err)
		none := carillon.Guard{Namespace: "a", Key: "none", Rev: 1, Value: []byte("none")}
		t.equal("by prefix", sortGuards(all), []carillon.Guard{none, g})
	}},
	{"an expired guard is compared, written and removed like any other", func(t *storeTest) {
		g := carillon.Guard{Namespace: "a", Key: "x", Value: []byte("1"), Expires: t.now - hourMillis}
		t.win(carillon.Change{Guards: []carillon.Guard{g}})
		t.lose(carillon.Change{Guards: []carillon.Guard{g}})
		t.lose(carillon.Change{Compared: []carillon.GuardRev{g.Compare()}})
		g.Rev = 1
		t.win(carillon.Change{Compared: []carillon.GuardRev{g.Compare()}})
		t.win(carillon.Change{Guards: []carillon.Guard{g}})
		t.win(carillon.Change{Guards: []carillon.Guard{{Namespace: "a", Key: "x", Rev: 2}}})
		t.equal("guard", t.guard("a", "x"), (*carillon.Guard)(nil))
	}},
	{"forget removes guards some time after they expired, in batches, earliest first", storeForgetGuards},
	{"forget keeps a guard that was renewed", func(t *storeTest) {
		g := carillon.Guard{Namespace: "a", Key: "x", Value: []byte("1"), Expires: t.now}
		t.win(carillon.Change{Guards: []carillon.Guard{g}})
		t.now += 2 * hourMillis
		g.Rev, g.Expires = 1, t.now
		t.win(carillon.Change{Guards: []carillon.Guard{g}})
		t.equal("forgotten", t.forget(hour), 0)
		t.equal("revision", t.guard("a", "x").Rev, int32(2))
		g.Rev, g.Expires = 2, 0
		t.win(carillon.Change{Guards: []carillon.Guard{g}})
		t.now += 100 * hourMillis
		t.equal("forgotten", t.forget(hour), 0)
		t.equal("revision", t.guard("a", "x").Rev, int32(3))
	}},
	{"a guard that forget removed may come again", func(t *storeTest) {
		g := carillon.Guard{Namespace: "a", Key: "x", Value: []byte("1"), Expires: t.now}
		t.win(carillon.Change{Guards: []carillon.Guard{g}})
		t.now += hourMillis
		t.equal("forgotten", t.forget(hour), 1)
		t.win(carillon.Change{Compared: []carillon.GuardRev{g.Compare()}})
		t.win(carillon.Change{Guards: []carillon.Guard{g}})
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
		if got := t.guard("a", "x").Value; !bytes.Equal(got, value) {
			t.Errorf("got %d other bytes", len(got))
		}
	}},
}

func storeForgetGuards(t *storeTest) {
	_, run := t.finished(carillon.StateSucceeded, nil)
	t.putGuards("a", "never")
	var c carillon.Change
	for i := range 5 { // the later the name, the earlier it expires
		c.Guards = append(c.Guards, carillon.Guard{
			Namespace: []string{"a", "b"}[i%2], Key: fmt.Sprint(i), Value: []byte(fmt.Sprint(i)),
			Expires: t.now + carillon.Time(5-i),
		})
	}
	t.win(c)
	t.now = t.now.Add(carillon.GuardGrace) + 4
	for _, want := range []struct {
		forgotten int
		a, b      []string
	}{
		// the run goes first; guard 0 has one millisecond left
		{2, []string{"a 0", "a 2", "a never"}, []string{"b 1", "b 3"}},
		{2, []string{"a 0", "a never"}, []string{"b 1"}},
		{1, []string{"a 0", "a never"}, nil},
		{0, []string{"a 0", "a never"}, nil},
	} {
		n, err := t.store.Forget(t.Context(), carillon.Retention{Runs: 1}, t.now, 2)
		t.must(err)
		t.equal("forgotten", n, want.forgotten)
		t.equal("a", t.guardKeys(carillon.GuardQuery{Namespace: "a"}), want.a)
		t.equal("b", t.guardKeys(carillon.GuardQuery{Namespace: "b"}), want.b)
	}
	t.equal("runs", len(t.findRuns(carillon.RunQuery{Job: run.ID.Job})), 0)
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
