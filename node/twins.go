package node

import (
	"time"

	"github.com/carillon-run/carillon"
)

// twins tells apart two kinds of members that have this node's address: another node that advertises it, and
// the session of this node's former process. After a kill -9 that session goes on until other nodes end it,
// and the new process has the same address. Only another node is a mistake that people have to correct.
type twins struct {
	seen map[string]time.Time // when a member with this node's address was seen first
}

// twinWait is far longer than the session of a dead process lasts: after 7 s without a beat any node ends it.
const twinWait = 30 * time.Second

// find returns a member that is another node at self's address. A member that joined after self is another
// node: this process was here already. A member that was there before may be self's former process, until it
// has stayed for too long.
func (t *twins) find(
	members []carillon.Member, self string, address string, now time.Time,
) (twin carillon.Member, ok bool) {
	var joined carillon.Time
	for _, m := range members {
		if m.ID == self {
			joined = m.Joined
		}
	}
	seen := map[string]time.Time{}
	for _, m := range members {
		if m.Kind != carillon.MemberNode || m.ID == self || m.Addr == "" || m.Addr != address {
			continue
		}
		first, known := t.seen[m.ID]
		if !known {
			first = now
		}
		seen[m.ID] = first
		if joined != 0 && m.Joined > joined || now.Sub(first) >= twinWait {
			twin, ok = m, true
		}
	}
	t.seen = seen
	return twin, ok
}
