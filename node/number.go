package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/idgen"
)

// The number of a node is a part of every job id that the node makes. The node leases it from the store: a
// guard for each number says until when the number is taken. A number is free again once its lease has run
// out, so a crash needs no clean-up.
const (
	numberLease = 10 * time.Minute
	numberRenew = 2 * time.Minute
	numberLook  = 15 * time.Second
)

type numberHolder struct {
	Node  string        `json:"node"`
	Until carillon.Time `json:"until"`
}

func numberKey(n int) string { return fmt.Sprintf("node/%04d", n) }

// leaseNumber takes the lowest free number.
func leaseNumber(
	ctx context.Context, store carillon.Store, clock *carillon.Clock, node string, shared bool,
) (carillon.Guard, *idgen.IDs, error) {
	for range 10 {
		now := clock.Now()
		guards, err := store.Guards(ctx, carillon.GuardQuery{
			Namespace: carillon.SystemNamespace, Prefix: "node/",
		})
		if err != nil {
			return carillon.Guard{}, nil, err
		}
		taken := map[string]carillon.Guard{}
		for _, g := range guards {
			taken[g.Key] = g
		}
		n, guard, ok := freeNumber(taken, now, shared)
		if !ok {
			return carillon.Guard{}, nil, fmt.Errorf(
				"all %d numbers are leased; the number of a crashed node is free again after %s",
				numbers, numberLease,
			)
		}
		until := now.Add(numberLease)
		guard.Value = holder(node, until)
		lost, err := store.Commit(ctx, []carillon.Change{{Guards: []carillon.Guard{guard}}})
		if err != nil {
			return carillon.Guard{}, nil, err
		}
		if len(lost) == 0 {
			guard.Rev++
			return guard, idgen.New(n, until), nil
		}
	}
	return carillon.Guard{}, nil, errors.New("other nodes were quicker ten times; start the node again")
}

// numbers leaves out the last number. The database uses that one to make ids itself: see carillon.Intake.
const numbers = idgen.MaxNodes - 1

func freeNumber(taken map[string]carillon.Guard, now carillon.Time, shared bool) (int, carillon.Guard, bool) {
	for n := range numbers {
		g, ok := taken[numberKey(n)]
		if !ok {
			return n, carillon.Guard{Namespace: carillon.SystemNamespace, Key: numberKey(n)}, true
		}
		if holderOfNumber(g).Until < now {
			return n, g, true
		}
	}
	if shared {
		return 0, carillon.Guard{}, false
	}
	// A process that crashes and is started again every second leaves a lease each time. This process has the
	// store to itself (see Node.lock), so every holder of a number is dead. The number that was leased first
	// has been idle the longest.
	oldest := 0
	for n := range numbers {
		if holderOfNumber(taken[numberKey(n)]).Until < holderOfNumber(taken[numberKey(oldest)]).Until {
			oldest = n
		}
	}
	return oldest, taken[numberKey(oldest)], true
}

func holderOfNumber(g carillon.Guard) (h numberHolder) {
	_ = json.Unmarshal(g.Value, &h) // only this file writes it; a number whose guard cannot be read is free
	return h
}

func holder(node string, until carillon.Time) []byte {
	b, _ := json.Marshal(numberHolder{node, until})
	return b
}

// keepNumber renews the lease until ctx ends. If it cannot, the node stops making ids when the lease is over.
// keepNumber checks the clock often, because a machine that slept can wake up with a lease that is over.
func (n *Node) keepNumber(ctx context.Context) error {
	tick := time.NewTicker(numberLook)
	defer tick.Stop()
	renewed := n.clock.Now()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		now := n.clock.Now()
		if now.Sub(renewed) < numberRenew {
			continue
		}
		until := now.Add(numberLease)
		switch won, err := n.writeNumber(ctx, until); {
		case err != nil:
			n.cfg.Logger.Error("renew the lease of the node number", "error", err)
		case !won:
			return fmt.Errorf("another node took node number %s", n.number.Key)
		default:
			n.ids.Extend(until)
			renewed = now
		}
	}
}

// releaseNumber frees the number at once for the next process.
func (n *Node) releaseNumber() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if _, err := n.writeNumber(ctx, n.clock.Now()); err != nil {
		n.cfg.Logger.Error("release the node number", "error", err) // the lease runs out by itself
	}
}

// writeNumber commits until when this node has its number. If the commit loses, it may have lost to this
// node's own earlier write, whose answer was lost. Then writeNumber reads the guard again and repeats the
// commit.
func (n *Node) writeNumber(ctx context.Context, until carillon.Time) (won bool, err error) {
	for range 2 {
		n.number.Value = holder(n.id, until)
		changes := []carillon.Change{{Guards: []carillon.Guard{n.number}}}
		lost, err := n.ledger.Commit(ctx, changes)
		if err != nil || len(lost) == 0 {
			n.number = changes[0].Guards[0]
			return err == nil, err
		}
		guards, err := n.backend.Store.Guards(ctx, carillon.GuardQuery{
			Namespace: carillon.SystemNamespace, Keys: []string{n.number.Key},
		})
		if err != nil || len(guards) == 0 || holderOfNumber(guards[0]).Node != n.id {
			return false, err
		}
		n.number = guards[0]
	}
	return false, nil
}
