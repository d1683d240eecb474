package cluster_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/cluster"
)

func TestEveryShardBelongsToOneNode(t *testing.T) {
	for n := 1; n <= 20; n++ {
		owners := map[int]int{}
		for i, node := range nodes(n) {
			owned := cluster.Shards(node, nodes(n))
			for _, shard := range owned {
				if before, twice := owners[shard]; twice {
					t.Errorf("shard %d belongs to nodes %d and %d", shard, before, i)
				}
				owners[shard] = i
			}
			if fair := carillon.Shards / n; n <= 4 && (len(owned) < fair/2 || len(owned) > 2*fair) {
				t.Errorf("node %d of %d has %d shards", i, n, len(owned))
			}
		}
		if len(owners) != carillon.Shards {
			t.Errorf("%d shards belong to %d nodes", len(owners), n)
		}
	}
}

func TestWhenANodeGoesOnlyItsOwnShardsMove(t *testing.T) {
	all := nodes(5)
	for gone := range all {
		left := slices.Delete(slices.Clone(all), gone, gone+1)
		for _, node := range left {
			before, after := cluster.Shards(node, all), cluster.Shards(node, left)
			for _, shard := range before {
				if !slices.Contains(after, shard) {
					t.Errorf("%s loses shard %d when %s goes", node, shard, all[gone])
				}
			}
		}
	}
}

func TestTheOrderOfNodesDoesNotMatter(t *testing.T) {
	all := nodes(7)
	for i := range all {
		turned := append(slices.Clone(all[i:]), all[:i]...)
		if got, want := cluster.Shards(
			all[0], turned,
		), cluster.Shards(all[0], all); !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	}
}

func TestANodeThatIsNotOnTheListHasNoShards(t *testing.T) {
	if got := cluster.Shards("node_x", nodes(3)); got != nil {
		t.Errorf("%v", got)
	}
}

func nodes(n int) (list []string) {
	for i := range n {
		list = append(list, fmt.Sprintf("node_%016x", uint64(i)*0x9E3779B97F4A7C15))
	}
	return list
}
