package carillon

// Shards is the fixed number of partitions that the work is divided into. A change touches one shard only.
const Shards = 64

// Shard is the partition of a job and of all its runs. Ids rise with time, so their bits are mixed first.
func (id JobID) Shard() int {
	h := uint64(id) * 0x9E3779B97F4A7C15
	return int(h >> 58)
}
