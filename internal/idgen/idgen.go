// Package idgen makes the ids of jobs.
package idgen

import (
	"fmt"
	"sync"
	"time"

	"github.com/carillon-run/carillon"
)

// IDs makes job ids that rise with time: 41 bits of milliseconds, 10 bits of node, 12 bits of counter.
// Because ids rise, every table appends rows instead of scattering them. The node number is leased from the
// store, so no two live processes have the same one. After the lease has run out IDs makes no ids, because
// another process may have the number by then.
type IDs struct {
	mu    sync.Mutex
	node  int64
	until carillon.Time
	last  int64 // milliseconds since epoch << 12 | counter
}

const (
	nodeBits    = 10
	counterBits = 12
	// MaxNodes is how many processes can make ids at the same time.
	MaxNodes = 1 << nodeBits
)

// idEpoch gives 69 years from 2025 on.
var idEpoch = time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()

// New makes ids with a node number that is leased until a time; Extend prolongs it.
func New(node int, until carillon.Time) *IDs { return &IDs{node: int64(node), until: until} }

// Extend says that the lease of the node number was renewed.
func (g *IDs) Extend(until carillon.Time) {
	g.mu.Lock()
	g.until = max(g.until, until)
	g.mu.Unlock()
}

// Next returns a new id. Ids never go back, whatever the clock does. Next borrows from the next millisecond
// when callers ask for more than 4096 ids in one.
func (g *IDs) Next(now carillon.Time) (carillon.JobID, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	next := max(g.last+1, (int64(now)-idEpoch)<<counterBits)
	if carillon.Time(next>>counterBits+idEpoch) >= g.until {
		return 0, fmt.Errorf("the lease of node number %d ran out at %s", g.node, g.until)
	}
	g.last = next // only now: a clock that is wrong for a moment must not stop ids for longer
	return g.id(next), nil
}

// Block returns the first of n new ids; the others follow by carillon.JobID.Nth.
func (g *IDs) Block(now carillon.Time, n int) (carillon.JobID, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	first := max(g.last+1, (int64(now)-idEpoch)<<counterBits)
	last := first + int64(max(n, 1)) - 1
	if carillon.Time(last>>counterBits+idEpoch) >= g.until {
		return 0, fmt.Errorf("the lease of node number %d ran out at %s", g.node, g.until)
	}
	g.last = last
	return g.id(first), nil
}

func (g *IDs) id(count int64) carillon.JobID {
	ms, counter := count>>counterBits, count&(1<<counterBits-1)
	return carillon.JobID(ms<<(nodeBits+counterBits) | g.node<<counterBits | counter)
}

// First is the lowest id that could be made at a time: all ids made before are lower.
func First(t carillon.Time) carillon.JobID {
	const most = 1<<(63-nodeBits-counterBits) - 1 // milliseconds that fit
	return carillon.JobID(max(0, min(int64(t)-idEpoch, most)) << (nodeBits + counterBits))
}
