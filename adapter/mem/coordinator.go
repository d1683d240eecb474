package mem

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/cluster"
)

// Coordinator knows the members of one node: the node itself, and the workers that dial in.
//
// Sessions end with the process. Workers that dialed in to the previous process are still there and still
// hold the runs that it gave them. So during the first SessionTime the coordinator takes an unknown worker
// that beats for one of those, if its id has the form of the ids that servers give out.
//
// Sessions are measured by the monotonic clock: setting the machine's clock ends none, and keeps none.
type Coordinator struct {
	Clock *carillon.Clock // set before use; default this machine's
	start time.Time

	mu       sync.Mutex
	sessions map[string]*session
	over     map[string]bool // sessions that ended while unknown workers are still accepted
}

type session struct {
	carillon.Member
	beat  time.Time
	at    carillon.Time // wall-clock time of the beat, for people and rules
	holds []carillon.Held
}

// NewCoordinator returns a coordinator without members.
func NewCoordinator() *Coordinator {
	return &Coordinator{start: time.Now(), sessions: map[string]*session{}, over: map[string]bool{}}
}

// Join refuses an id that already has a session.
func (c *Coordinator) Join(ctx context.Context, members []carillon.Member) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range members {
		if c.sessions[m.ID] != nil {
			return fmt.Errorf("join %s: %w", m.ID, carillon.ErrConflict)
		}
	}
	now := c.Clock.Now()
	for _, m := range members {
		m.Namespaces, m.Queues = slices.Clone(m.Namespaces), slices.Clone(m.Queues)
		m.Kinds, m.Types, m.Labels = slices.Clone(m.Kinds), slices.Clone(m.Types), maps.Clone(m.Labels)
		m.Joined, m.Number, m.Heard, m.Holds = now, 0, 0, nil
		c.sessions[m.ID] = &session{Member: m, beat: time.Now(), at: now}
	}
	return nil
}

func (c *Coordinator) Beat(ctx context.Context, beats []carillon.Beat) ([]carillon.Standing, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	standings, now := make([]carillon.Standing, len(beats)), time.Now()
	latest := make(map[string]int, len(beats)) // for each member, the index of the beat that counts
	for i, b := range beats {
		if k, any := latest[b.ID]; !any || b.Number >= beats[k].Number {
			latest[b.ID] = i
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, b := range beats {
		s := c.sessions[b.ID]
		if s == nil && !c.over[b.ID] && c.early() && cluster.DialedIn(b.ID) {
			s = &session{
				Member: carillon.Member{ID: b.ID, Kind: carillon.MemberWorker, Joined: c.Clock.Now()},
			}
			c.sessions[b.ID] = s
		}
		switch {
		case s == nil:
			standings[i] = carillon.StandingOver
		case latest[b.ID] != i || b.Number != 0 && b.Number <= s.Number:
			standings[i] = carillon.StandingOld
		default:
			standings[i] = carillon.StandingProlonged
			s.beat, s.at, s.holds = now, c.Clock.Now(), slices.Clone(b.Holds)
			s.Number, s.Heard = max(b.Number, s.Number), b.Heard
		}
	}
	return standings, nil
}

func (c *Coordinator) Leave(ctx context.Context, ids []string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range ids {
		c.end(id)
	}
	return nil
}

// early says that an unknown worker may have dialed in to the previous process.
func (c *Coordinator) early() bool { return time.Since(c.start) < carillon.SessionTime }

func (c *Coordinator) end(id string) {
	delete(c.sessions, id)
	if c.early() {
		c.over[id] = true
	}
}

func (c *Coordinator) Members(
	ctx context.Context, q carillon.MemberQuery,
) (list []carillon.Member, now carillon.Time, err error) {
	if err := ctx.Err(); err != nil {
		return nil, 0, err
	}
	now = c.Clock.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, s := range c.sessions {
		if now <= q.Expire && time.Since(s.beat) > carillon.SessionTime {
			c.end(id)
			continue
		}
		if len(q.IDs) > 0 && !slices.Contains(q.IDs, id) {
			continue
		}
		m := s.Member
		m.Beat = s.at
		if q.Holds {
			m.Holds = slices.Clone(s.holds)
		}
		list = append(list, m)
	}
	slices.SortFunc(list, func(a, b carillon.Member) int { return cmp.Compare(a.ID, b.ID) })
	return list, now, nil
}
