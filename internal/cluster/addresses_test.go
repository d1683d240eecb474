package cluster_test

import (
	"slices"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/cluster"
)

func TestWorkersAreToldFirstOfNodesThatBeatLately(t *testing.T) {
	now := carillon.Time(1_000_000)
	node := func(addr string, ago time.Duration) carillon.Member {
		return carillon.Member{Kind: carillon.MemberNode, Addr: addr, Beat: now.Add(-ago)}
	}
	members := []carillon.Member{
		node("killed", 3*time.Second), node("a", 0), node("frozen", 6*time.Second), node("b", 2*time.Second),
		node("ahead", -time.Second),
		node("", 0),
		{Kind: carillon.MemberWorker, Addr: "worker", Beat: now},
	}
	firsts := map[string]bool{}
	for range 200 {
		list := cluster.Addresses(members, now)
		firsts[list[0]] = true
		slices.Sort(list[:3])
		slices.Sort(list[3:])
		if want := []string{"a", "ahead", "b", "frozen", "killed"}; !slices.Equal(list, want) {
			t.Fatalf("addresses %v, want %v", list, want)
		}
	}
	if len(firsts) != 3 {
		t.Errorf("only %v come first: want all that are fresh in turn", firsts)
	}
}
