package scheduler

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/carillon-run/carillon"
)

const (
	lookEvery = 500 * time.Millisecond
	assembly  = 100 * time.Millisecond
	solitude  = 25 * time.Millisecond
	straggle  = 3 * time.Second
	// steady is the longest between two good looks at the members that counts as no outage.
	steady = 3 * time.Second
)

// members are those alive, and what follows from it.
type members struct {
	start time.Time

	mu    sync.Mutex
	list  []carillon.Member
	alive map[string]bool
	nodes int
	owned []int // nil: all shards
}

// set takes a new list. gone: somebody is. moved: nodes have come, or a node or the worker inside of one is gone, and with it
// what only that node knew of.
func (m *members) set(list []carillon.Member, node string) (gone, moved bool) {
	alive := make(map[string]bool, len(list))
	var nodes []string
	for _, member := range list {
		alive[member.ID] = true
		if member.Kind == carillon.KindNode {
			nodes = append(nodes, member.ID)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, member := range m.list {
		if !alive[member.ID] {
			gone = true
			moved = moved || member.Kind == carillon.KindNode || carillon.InnerWorker(member.ID)
		}
	}
	moved = moved || len(nodes) != m.nodes
	m.list, m.alive, m.nodes = list, alive, len(nodes)
	if node != "" && moved {
		m.owned = carillon.ShardsOf(node, nodes)
		if len(m.owned) == carillon.Shards {
			m.owned = nil
		} else if m.owned == nil {
			m.owned = []int{} // none, which is not all
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

// owns says whether a shard is this node's.
func (m *members) owns(shard int) bool {
	owned := m.shards()
	return owned == nil || slices.Contains(owned, shard)
}

// has says whether a worker is alive. Where sessions are not kept by the store, those who dialed in to the process before
// this one have a while to say that they are still there.
func (m *members) has(worker string, alone bool) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.alive[worker] || alone && !carillon.InnerWorker(worker) && time.Since(m.start) <= carillon.SessionTime
}

// Members are those alive, as last heard.
func (s *Scheduler) Members() []carillon.Member {
	s.members.mu.Lock()
	defer s.members.mu.Unlock()
	return s.members.list
}

// Shards are those that this node sees to; nil: all.
func (s *Scheduler) Shards() []int { return s.members.shards() }

// assemble waits a moment until no more nodes come: those that start together would otherwise each load, and try to claim,
// what belongs to the others. Who seems to be alone waits less: most likely it is.
func (s *Scheduler) assemble(ctx context.Context) {
	for range 10 {
		before, wait := len(s.Members()), assembly
		if s.members.nodesAlive() < 2 {
			wait = solitude
		}
		if s.cfg.Node == "" || !pause(ctx, wait) {
			return
		}
		if err := s.look(ctx, 0); err == nil && len(s.Members()) == before {
			return
		}
	}
}

// follow keeps the list of members fresh, whatever else is going on: a sweep that takes long must not judge by an old one.
// Sessions are ended only while the coordinator has been answering for a session's time: after an outage, of it or of this
// process, those who are still there must have had the time to say so.
func (s *Scheduler) follow(ctx context.Context) error {
	failing := false
	last, since := time.Now(), time.Now() // of the last good look, and of the first of an unbroken row
	var reload time.Time                  // once more a while after a node has left: until then it may have taken requests
	for pause(ctx, lookEvery) {
		now := time.Now()
		if !reload.IsZero() && now.After(reload) {
			reload = time.Time{}
			s.reload.set()
		}
		nodes := s.members.nodesAlive()
		if now.Sub(last) > steady {
			since = now
		}
		expire := carillon.Time(0)
		if now.Sub(since) > carillon.SessionTime {
			expire = carillon.Now().Add(steady) // held up for longer than that, it must end nothing any more
		}
		err := s.look(ctx, expire)
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

// look asks who is alive.
func (s *Scheduler) look(ctx context.Context, expire carillon.Time) error {
	ctx, cancel := context.WithTimeout(ctx, steady)
	defer cancel()
	select { // one at a time: an older list must not replace a newer one
	case s.looking <- struct{}{}:
		defer func() { <-s.looking }()
	case <-ctx.Done():
		return ctx.Err()
	}
	list, err := s.cfg.Coordinator.Members(ctx, expire)
	if err != nil {
		return err
	}
	gone, moved := s.members.set(list, s.cfg.Node)
	if gone {
		s.gone.set()
	}
	if moved {
		s.reload.set()
	}
	return nil
}
