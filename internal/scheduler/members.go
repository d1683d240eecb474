package scheduler

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/await"
	"github.com/carillon-run/carillon/internal/cluster"
)

const (
	refreshEvery = 500 * time.Millisecond
	assembly     = 100 * time.Millisecond
	solitude     = 25 * time.Millisecond
	straggle     = 3 * time.Second
	// steady is the longest time between two good refreshes of the members that does not count as an outage.
	steady = 3 * time.Second
)

// members holds the live members, and what follows from them.
type members struct {
	start time.Time

	mu    sync.Mutex
	list  []carillon.Member
	alive map[string]bool
	nodes int
	owned []int // nil: all shards
}

// set takes a new list. gone: the members that left. moved: nodes joined, or a node or the worker inside it
// left, and with it the knowledge of runs that only that node knew of; so shards must be reloaded.
func (m *members) set(list []carillon.Member, node string) (gone []string, moved bool) {
	alive := make(map[string]bool, len(list))
	var nodes []string
	for _, member := range list {
		alive[member.ID] = true
		if member.Kind == carillon.MemberNode {
			nodes = append(nodes, member.ID)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, member := range m.list {
		if !alive[member.ID] {
			gone = append(gone, member.ID)
			moved = moved || member.Kind == carillon.MemberNode || cluster.Inner(member.ID)
		}
	}
	moved = moved || len(nodes) != m.nodes
	m.list, m.alive, m.nodes = list, alive, len(nodes)
	if node != "" && moved {
		m.owned = cluster.Shards(node, nodes)
		if len(m.owned) == carillon.Shards {
			m.owned = nil
		} else if m.owned == nil {
			m.owned = []int{} // no shards; nil would mean all
		}
	}
	return gone, moved
}

func (m *members) nodesAlive() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.nodes
}

func (m *members) shards() []int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.owned
}

// owns says whether a shard belongs to this node.
func (m *members) owns(shard int) bool {
	owned := m.shards()
	return owned == nil || slices.Contains(owned, shard)
}

// has says whether a worker is alive. Where the store does not keep the sessions, workers that dialed in to
// the previous process have a while to say that they are still there.
func (m *members) has(worker string, alone bool) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.alive[worker] ||
		alone && !cluster.Inner(worker) && time.Since(m.start) <= carillon.SessionTime
}

// Members are the live members as of the last refresh.
func (s *Scheduler) Members() []carillon.Member {
	s.members.mu.Lock()
	defer s.members.mu.Unlock()
	return s.members.list
}

// Shards are the shards that this node owns; nil: all.
func (s *Scheduler) Shards() []int { return s.members.shards() }

// Owns says whether a shard belongs to this node.
func (s *Scheduler) Owns(shard int) bool { return s.members.owns(shard) }

// assemble waits a moment until no more nodes join: nodes that start together would otherwise each load, and
// try to claim, runs that belong to the others. A node that seems to be alone waits less: most likely it is
// alone.
func (s *Scheduler) assemble(ctx context.Context) {
	for range 10 {
		before, wait := len(s.Members()), assembly
		if s.members.nodesAlive() < 2 {
			wait = solitude
		}
		if s.cfg.Node == "" || !await.For(ctx, wait) {
			return
		}
		if err := s.refreshMembers(ctx, 0); err == nil && len(s.Members()) == before {
			return
		}
	}
}

// followMembers keeps the list of members fresh, whatever else is going on: a long sweep must not judge by an
// old list. It ends sessions only after the coordinator has answered for a session's time: after an outage of
// the coordinator or of this process, members that are still there must have had the time to say so.
func (s *Scheduler) followMembers(ctx context.Context) error {
	failing := false
	last, since := time.Now(), time.Now() // last good refresh, and first of an unbroken row of them
	var reload time.Time                  // again after a node left: until then it may have taken requests
	for await.For(ctx, refreshEvery) {
		now := time.Now()
		if !reload.IsZero() && now.After(reload) {
			reload = time.Time{}
			s.reload.Set()
		}
		nodes := s.members.nodesAlive()
		if now.Sub(last) > steady {
			since = now
		}
		expire := carillon.Time(0)
		if now.Sub(since) > carillon.SessionTime {
			expire = s.cfg.Clock.Now().Add(steady) // a call that is held up for longer must end no session
		}
		err := s.refreshMembers(ctx, expire)
		if err == nil {
			last = time.Now()
		} else if !failing && ctx.Err() == nil {
			s.cfg.Logger.Error("ask who is alive: trying again", "error", err)
		}
		failing = err != nil
		if s.members.nodesAlive() < nodes {
			reload = now.Add(straggle)
		}
	}
	return nil
}

// refreshMembers refreshes the list of live members.
func (s *Scheduler) refreshMembers(ctx context.Context, expire carillon.Time) error {
	ctx, cancel := context.WithTimeout(ctx, steady)
	defer cancel()
	select { // one at a time: an older list must not replace a newer one
	case s.refreshing <- struct{}{}:
		defer func() { <-s.refreshing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	list, _, err := s.cfg.Coordinator.Members(ctx, carillon.MemberQuery{Expire: expire})
	if err != nil {
		return err
	}
	gone, moved := s.members.set(list, s.cfg.Node)
	if len(gone) > 0 {
		if s.pulls != nil { // before their runs are taken back, or the pulls would get them once more
			s.pulls.EndPulls(gone)
		}
		s.gone.Set()
	}
	if moved {
		s.reload.Set()
	}
	return nil
}
