// Package cluster has rules about the members of a cluster: which shards a node owns, where workers find
// nodes, and how the ids of workers look.
package cluster

import (
	"hash/fnv"
	"math/rand/v2"
	"strings"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/worker/protocol"
)

// Shards are the shards that a node is responsible for, given the live nodes, by rendezvous hashing: each
// shard belongs to the node that scores highest for it, so when a node comes or goes only its own shards
// move. Each node computes this alone.
func Shards(node string, nodes []string) (owned []int) {
	for shard := range carillon.Shards {
		owner, best := "", uint64(0)
		for _, n := range nodes {
			if s := score(n, shard); owner == "" || s > best || s == best && n < owner {
				owner, best = n, s
			}
		}
		if owner == node {
			owned = append(owned, shard)
		}
	}
	return owned
}

func score(node string, shard int) uint64 {
	h := fnv.New64a()
	h.Write([]byte(node))
	x := h.Sum64() ^ uint64(shard+1)*0x9E3779B97F4A7C15
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9 // FNV alone leaves names that differ in one letter too much alike
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}

// Addresses returns the addresses at which workers can dial nodes. Nodes that sent a beat within the last two
// seconds come first, because a killed node stays a member for carillon.SessionTime. Otherwise the order is
// random, so that workers spread over the nodes.
func Addresses(members []carillon.Member, now carillon.Time) []string {
	var fresh, rest []string
	for i := range members {
		switch m := &members[i]; {
		case m.Kind != carillon.MemberNode || m.Addr == "":
		case now.Sub(m.Beat) <= 2*protocol.BeatEvery:
			fresh = append(fresh, m.Addr)
		default:
			rest = append(rest, m.Addr)
		}
	}
	for _, list := range [][]string{fresh, rest} {
		rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	}
	return append(fresh, rest...)
}

// WorkerPrefix begins the ids of workers that dial in; 20 hexadecimal digits follow.
const WorkerPrefix = "worker_"

// DialedIn says whether an id has the form of the ids that servers give to workers that dial in.
func DialedIn(worker string) bool {
	digits, ok := strings.CutPrefix(worker, WorkerPrefix)
	return ok && len(digits) == 20 && strings.Trim(digits, "0123456789abcdef") == ""
}

// InnerPrefix begins the ids of workers that are part of a node. Other workers dial in, and outlive the node
// that they dialed.
const InnerPrefix = "inner_"

// Inner says whether a worker is part of a node, so that its runs end with that node's process.
func Inner(worker string) bool { return strings.HasPrefix(worker, InnerPrefix) }
