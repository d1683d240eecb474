package node

import (
	"context"
	"errors"
	"fmt"

	"github.com/carillon-run/carillon"
)

// coordinatorKey is the guard that says where the nodes of a store keep their sessions.
const coordinatorKey = "cluster/coordinator"

// apart says that the sessions are kept elsewhere than in the store's database.
func (n *Node) apart() bool {
	return n.cfg.Backend.Coordinator != nil || n.cfg.Coordinator != "" && n.cfg.Coordinator != "store"
}

// agree refuses to start beside nodes that keep their sessions elsewhere. Each of two such nodes would take
// the workers of the other for dead, and start again what they run. When no other node holds a number, this
// node says where the sessions are from now on.
func (n *Node) agree(ctx context.Context) error {
	if !n.backend.Shared {
		return nil
	}
	mine := "store"
	switch {
	case n.cfg.Backend.Coordinator != nil:
		mine = "Backend.Coordinator"
	case n.apart():
		mine = Redact(n.cfg.Coordinator)
	}
	for range 10 {
		guards, err := n.backend.Store.Guards(ctx, carillon.GuardQuery{
			Namespace: carillon.SystemNamespace, Keys: []string{coordinatorKey},
		})
		if err != nil {
			return err
		}
		said := carillon.Guard{Namespace: carillon.SystemNamespace, Key: coordinatorKey}
		if len(guards) > 0 {
			said = guards[0]
		}
		if string(said.Value) == mine {
			return nil
		}
		if said.Rev > 0 {
			if err := n.alone(ctx, mine, string(said.Value)); err != nil {
				return err
			}
		}
		said.Value = []byte(mine)
		lost, err := n.backend.Store.Commit(ctx, []carillon.Change{{Guards: []carillon.Guard{said}}})
		if err != nil || len(lost) == 0 {
			return err
		}
	}
	return errors.New("could not agree with other nodes on a coordinator: others were quicker ten times")
}

// alone returns an error if another node holds a number: it may be running, with another coordinator.
func (n *Node) alone(ctx context.Context, mine, theirs string) error {
	guards, err := n.backend.Store.Guards(ctx, carillon.GuardQuery{
		Namespace: carillon.SystemNamespace, Prefix: "node/",
	})
	if err != nil {
		return err
	}
	for _, g := range guards {
		if h := holderOfNumber(g); h.Node != n.id && h.Until >= n.clock.Now() {
			return fmt.Errorf(
				"coordinator: %q is not valid while other nodes of this store use %q: want the same on all "+
					"nodes; to change it, stop all of them (after a crash, wait %s)",
				mine, theirs, numberLease,
			)
		}
	}
	return nil
}
