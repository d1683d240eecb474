package node

import (
	"context"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/adapter/mem"
	"github.com/carillon-run/carillon/internal/idgen"
)

func TestTheLowestFreeNumberIsTaken(t *testing.T) {
	store := mem.NewStore()
	lease := func(node string) string {
		t.Helper()
		guard, _, err := leaseNumber(t.Context(), store, nil, node, false)
		if err != nil {
			t.Fatal(err)
		}
		return guard.Key
	}
	for i, node := range []string{"node_a", "node_b", "node_c"} {
		if got := lease(node); got != numberKey(i) {
			t.Errorf("%s has %s, want %s", node, got, numberKey(i))
		}
	}
	write(t, store, 1, carillon.Now().Add(-time.Minute)) // its lease has run out
	if got := lease("node_d"); got != numberKey(1) {
		t.Errorf("node_d has %s", got)
	}
	if got := lease("node_e"); got != numberKey(3) {
		t.Errorf("node_e has %s", got)
	}
}

// write records in the store until when a number is taken.
func write(t *testing.T, store carillon.Store, n int, until carillon.Time) {
	t.Helper()
	guards, err := store.Guards(t.Context(), carillon.GuardQuery{
		Namespace: carillon.SystemNamespace, Keys: []string{numberKey(n)},
	})
	if err != nil {
		t.Fatal(err)
	}
	guard := carillon.Guard{Namespace: carillon.SystemNamespace, Key: numberKey(n)}
	if len(guards) > 0 {
		guard = guards[0]
	}
	guard.Value = holder("node_x", until)
	if lost, err := store.Commit(t.Context(), []carillon.Change{
		{Guards: []carillon.Guard{guard}},
	}); err != nil ||
		len(lost) > 0 {
		t.Fatal(lost, err)
	}
}

func TestANumberIsFreeAgainAfterACleanStop(t *testing.T) {
	cfg := Config{Data: t.TempDir()}
	for i := range 3 {
		n := open(t, cfg)
		if n.number.Key != numberKey(0) {
			t.Errorf("start %d has %s", i+1, n.number.Key)
		}
		start(t, n)()
	}
}

func TestANodeStartsThoughAllNumbersAreLeased(t *testing.T) {
	cfg := Config{Data: t.TempDir()}
	n := open(t, cfg)
	now := carillon.Now()
	for i := range idgen.MaxNodes {
		until := now.Add(time.Minute + time.Duration(i)*time.Second)
		if i == 700 {
			until = now.Add(time.Second * 30) // the one leased first
		}
		write(t, n.backend.Store, i, until)
	}
	n.shut()
	n = open(t, cfg)
	if n.number.Key != numberKey(700) {
		t.Errorf("it has %s", n.number.Key)
	}
	defer start(t, n)()
	if _, err := n.Submit(t.Context(), definition("test", time.Hour)); err != nil {
		t.Error(err)
	}
}

func TestIDsDoNotRepeatOverRestarts(t *testing.T) {
	cfg := Config{Data: t.TempDir()}
	seen := map[carillon.JobID]bool{}
	for range 4 {
		n := open(t, cfg)
		stop := start(t, n)
		defs := make([]carillon.Definition, 100)
		for i := range defs {
			defs[i] = definition("test", time.Hour)
		}
		jobs, err := n.Submit(context.Background(), defs...)
		if err != nil {
			t.Fatal(err)
		}
		for _, job := range jobs {
			if seen[job.ID] {
				t.Errorf("%s again", job.ID)
			}
			seen[job.ID] = true
		}
		stop()
	}
}
