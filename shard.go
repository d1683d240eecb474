package carillon

import "hash/fnv"

// Shards is the fixed number of partitions that the work is divided into. A change touches one shard only.
const Shards = 64

// Shard is the partition of a job and of all its runs. Ids rise with time, so their bits are mixed first.
func (id JobID) Shard() int {
	h := uint64(id) * 0x9E3779B97F4A7C15
	return int(h >> 58)
}

// ShardsOf are the shards that a node is responsible for, given the live nodes, by rendezvous hashing: each
// shard belongs to the node that scores highest for it, so when a node comes or goes only its own shards
// move. Each node computes this alone.
func ShardsOf(node string, nodes []string) (owned []int) {
	for shard := range Shards {
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
