package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/cluster"
	"github.com/carillon-run/carillon/worker/protocol"
)

// join makes the node known to the other nodes.
func (n *Node) join(ctx context.Context) error {
	member := carillon.Member{
		ID: n.id, Kind: carillon.MemberNode, Addr: n.advertise,
		Profile: carillon.Profile{Version: n.cfg.Version},
	}
	member.Host, _ = os.Hostname() // empty if the machine does not know it
	if err := n.backend.Coordinator.Join(ctx, []carillon.Member{member}); err != nil {
		return fmt.Errorf("join the cluster: %w", err)
	}
	n.beaten.Store(time.Now().UnixMilli())
	return nil
}

// beat keeps the node's session. It opens a session again that was lost because the process was frozen or cut
// off. That is safe: shards are all that another node can have been given in between, and two nodes that see
// to one shard are harmless.
func (n *Node) beat(ctx context.Context) error {
	tick := time.NewTicker(protocol.BeatEvery)
	defer tick.Stop()
	failing := false
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			leave, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer cancel()
			if err := n.backend.Coordinator.Leave(leave, []string{n.id}); err != nil {
				n.cfg.Logger.Error("leave the cluster", "error", err) // the session runs out by itself
			}
			return nil
		}
		err := n.beatOnce(ctx)
		if err != nil {
			n.ledger.Forget() // only this tells an idle node that the store failed over
		}
		if err != nil && !failing && ctx.Err() == nil {
			n.cfg.Logger.Error("prolong the node's session: trying again", "error", err)
		}
		failing = err != nil
	}
}

func (n *Node) beatOnce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	standings, err := n.backend.Coordinator.Beat(ctx, []carillon.Beat{{ID: n.id}})
	if err != nil {
		return err
	}
	n.beaten.Store(time.Now().UnixMilli())
	if standings[0] != carillon.StandingOver {
		return nil
	}
	n.cfg.Logger.Warn("the node's session was over: joining again")
	return n.join(ctx)
}

// addresses returns where workers find nodes.
func (n *Node) addresses() []string {
	return cluster.Addresses(n.scheduler.Members(), n.clock.Now())
}

// peerAddresses returns the addresses of the other nodes. One goroutine calls it, once a second.
func (n *Node) peerAddresses() (list []string) {
	members := n.scheduler.Members()
	for _, m := range members {
		if m.Kind == carillon.MemberNode && m.Addr != "" && m.ID != n.id && m.Addr != n.advertise {
			list = append(list, m.Addr)
		}
	}
	if twin, ok := n.twins.find(members, n.id, n.advertise, time.Now()); ok && !n.confused {
		n.confused = true
		n.cfg.Logger.Error("another node says that it is reached at this node's address: set --listen or "+
			"--advertise to one that other machines reach",
			"address", twin.Addr, "node", twin.ID)
	}
	return list
}

// advertised returns the URL under which other nodes and workers reach this node.
func (n *Node) advertised() string {
	if n.cfg.Advertise != "" || n.listener == nil {
		return n.cfg.Advertise
	}
	host, port, _ := net.SplitHostPort(n.listener.Addr().String())
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		if name, err := os.Hostname(); err == nil {
			host = name
		}
	}
	return "http://" + net.JoinHostPort(host, port)
}

// clock is the store's clock, as last measured.
type clock struct {
	carillon.Clock
	known atomic.Bool // there was a measurement
}

// maxSilence is how long a store may take no beat before the node says that it cannot be relied on.
const maxSilence = 3 * time.Second

// reachable says whether the store takes writes. A node that shares its store writes a beat every second and
// goes by the last beat; if the beats go elsewhere, it also asks the store. A node that is alone goes by its
// last commit.
func (n *Node) reachable() error {
	if n.backend.Shared {
		if since := time.Since(time.UnixMilli(n.beaten.Load())); since > maxSilence {
			return errors.New("the store does not answer")
		}
		if !n.apart() {
			return nil
		}
		ctx, cancel := context.WithTimeout(context.Background(), maxSilence)
		defer cancel()
		if _, err := n.backend.Store.Guards(ctx, carillon.GuardQuery{
			Namespace: carillon.SystemNamespace, Keys: []string{coordinatorKey},
		}); err != nil {
			n.cfg.Logger.Error("not ready: the store does not answer", "error", err)
			return errors.New("the store does not answer")
		}
		return nil
	}
	if err := n.ledger.Failing(); err != nil {
		n.cfg.Logger.Error("not ready: the last commit failed", "error", err)
		return errors.New("the store does not take writes")
	}
	return nil
}

const (
	clockEvery = 10 * time.Second
	// maxAhead is how far clocks may differ before a node says that it cannot be relied on.
	maxAhead = time.Second
	// maxUnsure is how long an answer may take on its way and still be believed.
	maxUnsure = 100 * time.Millisecond
)

// compareClocks measures how far the store's clock is ahead and corrects this node by it, so that no run
// starts early by the clock that all nodes share.
func (n *Node) compareClocks(ctx context.Context) error {
	if !n.backend.Shared {
		return nil
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	compared := time.Now()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		if time.Since(compared) < clockEvery && n.clock.Moved() < maxAhead/2 {
			continue
		}
		compared = time.Now()
		if err := n.readClock(ctx); err != nil && ctx.Err() == nil {
			n.cfg.Logger.Error("compare clocks", "error", err)
		}
	}
}

func (n *Node) readClock(ctx context.Context) error {
	if !n.backend.Shared {
		return nil
	}
	m, err := n.measureClock(ctx)
	if err != nil {
		return fmt.Errorf("read the store's clock: %w", err)
	}
	n.setClock(m)
	return nil
}

// measurement is what a comparison of clocks found.
type measurement struct {
	at    time.Time     // of this machine
	ahead time.Duration // the store's clock at that time
	sure  time.Duration // how far off that may be
}

// measureClock asks a few times and believes the quickest answer.
func (n *Node) measureClock(ctx context.Context) (m measurement, err error) {
	m.sure = time.Hour
	for range 5 {
		asked := time.Now()
		_, at, err := n.backend.Coordinator.Members(ctx, carillon.MemberQuery{IDs: []string{n.id}})
		took := time.Since(asked)
		if err != nil {
			return m, err
		}
		if took < m.sure {
			half := asked.Add(took / 2)
			m = measurement{half, at.Std().Sub(half), took}
		}
	}
	m.sure += time.Millisecond
	return m, nil
}

// setClock takes a measurement. It ignores an uncertain one if there was one before: a database that answers
// slowly must not undo what was known, unless the difference is larger than the uncertainty: the machine
// slept, and its monotonic clock stood still.
func (n *Node) setClock(m measurement) {
	if m.sure > maxUnsure && n.clock.known.Load() && n.clock.Off(m.at, m.ahead) <= m.sure {
		return
	}
	n.clock.known.Store(true)
	ahead := m.ahead
	if ahead.Abs() <= m.sure { // too small to tell from the time of the round trip
		ahead = 0
	}
	before := n.clock.Ahead()
	n.clock.Compare(m.at, ahead)
	if far := ahead.Abs() > maxAhead; far != (before.Abs() > maxAhead) {
		n.cfg.Logger.Warn(
			"this machine's clock compared to the store's",
			"store_is_ahead_by", ahead.Round(time.Millisecond), "ready", !far,
		)
	}
}

// wrong returns an error if the clocks differ by more than maxAhead.
func (c *clock) wrong() error {
	if ahead := c.Ahead(); ahead.Abs() > maxAhead {
		return fmt.Errorf(
			"this machine's clock differs from the store's by %s: want less than %s; is time "+
				"synchronization running?",
			ahead.Abs().Round(time.Millisecond), maxAhead,
		)
	}
	return nil
}
