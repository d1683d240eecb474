package node

import (
	"context"
	"errors"
	"fmt"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/adapter/mem"
	"github.com/carillon-run/carillon/internal/outage"
)

// Backend is what a node is built on: one adapter for every port. Set the ports for which you have an adapter
// of your own; the node opens the others. The code that opens an adapter also closes it, after Node.Run has
// returned: the node closes only what it has opened itself.
type Backend struct {
	// Store keeps jobs and runs. Default: what Config.Store says.
	Store carillon.Store
	// Shared says that other nodes use Store too. Then Logs and Coordinator must be set as well, to adapters
	// that all these nodes use. Without Store it has no effect.
	Shared bool
	// Writers is how many commits Store can do well at the same time. Without Store it has no effect. Default
	// 1.
	Writers int

	// Logs keeps the output of runs. Default: what Config.Logs says.
	Logs carillon.LogStore
	// Coordinator keeps the sessions of nodes and workers. Its clock is the clock of all nodes. Default: what
	// Config.Coordinator says.
	Coordinator carillon.Coordinator
	// Intake is where applications leave jobs in their own transactions. Default: the store's, if it has one.
	Intake carillon.Intake
	// Bus tells this node's events to other nodes, and theirs to this node; a node should not hear its own
	// events again. Default: the store's; without one, nodes poll.
	Bus carillon.Bus

	// Timeline is the near future, for this node alone. Default: in memory.
	Timeline carillon.Timeline
	// Queue orders the due runs of this node alone. If it has a method SetWeights(map[string]int), that is
	// called with the weights of queues whenever operators change them, and a method
	// SetNamespaceWeights(map[string]int) with those of namespaces. Default: in memory.
	Queue carillon.Queue
	// Carrier brings due runs from the other nodes. Its other end takes them from their Queue. Default: HTTP,
	// from each other node.
	Carrier carillon.Carrier
}

// open opens an adapter for each port that the configuration does not bring. It makes the node notice when
// one of them is away: all adapters on the store's database are away together.
func (n *Node) open(ctx context.Context) (*Backend, error) {
	b := n.cfg.Backend
	of := b
	if b.Store == nil {
		opened, err := n.openStore(ctx)
		if err != nil {
			return nil, fmt.Errorf("open store %s: %w", Redact(n.cfg.Store), err)
		}
		of = opened
	}
	b.Shared, b.Writers, b.Store = of.Shared, max(of.Writers, 1), n.outage.Store(of.Store)
	var err error
	if b.Logs, err = n.logs(ctx, &of); err != nil {
		return nil, err
	}
	if b.Coordinator, err = n.coordinator(ctx, &of); err != nil {
		return nil, err
	}
	if b.Intake == nil {
		b.Intake = of.Intake
	}
	b.Intake = n.outage.Intake(b.Intake)
	if b.Bus == nil {
		b.Bus = of.Bus
	}
	if b.Timeline == nil {
		b.Timeline = mem.NewTimeline(mem.TimelineConfig{})
	}
	if b.Queue == nil {
		b.Queue = mem.NewQueue(mem.QueueConfig{})
	}
	if b.Carrier != nil && !b.Shared {
		return nil, errors.New("carrier: one is given, and no other node uses the store: want a store that " +
			"nodes share")
	}
	return &b, nil
}

// logs returns the store of logs: the caller's, the store's (of), or the one that the configuration names.
func (n *Node) logs(ctx context.Context, of *Backend) (carillon.LogStore, error) {
	apart := outage.New("the store of logs", n.cfg.Logger)
	if given := n.cfg.Backend.Logs; given != nil {
		return apart.Logs(given), nil
	}
	switch n.cfg.Logs {
	case "", "store":
		if of.Logs != nil {
			return n.outage.Logs(of.Logs), nil
		}
	}
	logs, err := n.openLogs(ctx, of)
	if err != nil {
		return nil, err
	}
	return apart.Logs(logs), nil
}

// coordinator returns the coordinator: the caller's, the store's (of), or the one that the configuration
// names. One in memory is not watched: it is never away.
func (n *Node) coordinator(ctx context.Context, of *Backend) (carillon.Coordinator, error) {
	apart := outage.New("the coordinator", n.cfg.Logger)
	if given := n.cfg.Backend.Coordinator; given != nil {
		return apart.Coordinator(given), nil
	}
	switch n.cfg.Coordinator {
	case "", "store":
		if of.Coordinator != nil {
			return n.outage.Coordinator(of.Coordinator), nil
		}
	}
	coordinator, err := n.openCoordinator(ctx, of)
	if err != nil || !of.Shared {
		return coordinator, err
	}
	return apart.Coordinator(coordinator), nil
}
