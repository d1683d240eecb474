package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/carillon-run/carillon"
)

// The number of a node is a part of every job id that it makes. It is leased from the store: a guard for each number
// says until when it is taken. A number is free again once its lease has run out, so a crash needs no clean-up.
const (
	numberLease = time.Hour
	numberRenew = 10 * time.Minute
	numberSpace = "system" // namespace of guards that belong to no tenant
)

type numberHolder struct {
	Node  string        `json:"node"`
	Until carillon.Time `json:"until"`
}

func numberKey(n int) string { return fmt.Sprintf("node/%04d", n) }

// leaseNumber takes the lowest free number.
func leaseNumber(ctx context.Context, store carillon.Store, node string) (carillon.Guard, *carillon.IDs, error) {
	for range 10 {
		now := carillon.Now()
		guards, err := store.Guards(ctx, carillon.GuardQuery{Namespace: numberSpace, Prefix: "node/"})
		if err != nil {
			return carillon.Guard{}, nil, err
		}
		taken := map[string]carillon.Guard{}
		for _, g := range guards {
			taken[g.Key] = g
		}
		n, guard := freeNumber(taken, now)
		if n < 0 {
			return carillon.Guard{}, nil, fmt.Errorf("all %d node numbers are leased: wait for one to run out", carillon.MaxNodes)
		}
		until := now.Add(numberLease)
		guard.Value = holder(node, until)
		lost, err := store.Commit(ctx, []carillon.Change{{Guards: []carillon.Guard{guard}}})
		if err != nil {
			return carillon.Guard{}, nil, err
		}
		if len(lost) == 0 {
			guard.Rev++
			return guard, carillon.NewIDs(n, until), nil
		}
	}
	return carillon.Guard{}, nil, errors.New("could not lease a node number: others were quicker ten times")
}

func freeNumber(taken map[string]carillon.Guard, now carillon.Time) (int, carillon.Guard) {
	for n := range carillon.MaxNodes {
		g, ok := taken[numberKey(n)]
		if !ok {
			return n, carillon.Guard{Namespace: numberSpace, Key: numberKey(n)}
		}
		var h numberHolder
		if err := json.Unmarshal(g.Value, &h); err == nil && h.Until < now {
			return n, g
		}
	}
	return -1, carillon.Guard{}
}

func holder(node string, until carillon.Time) []byte {
	b, _ := json.Marshal(numberHolder{node, until})
	return b
}

// committer is the ledger: the one door for writes.
type committer interface {
	Commit(ctx context.Context, changes []carillon.Change) ([]int, error)
}

// keepNumber renews the lease until ctx ends. If it cannot, ids stop being made when the lease is over.
func keepNumber(ctx context.Context, door committer, guard carillon.Guard, node string, ids *carillon.IDs, log *slog.Logger) error {
	tick := time.NewTicker(numberRenew)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		until := carillon.Now().Add(numberLease)
		guard.Value = holder(node, until)
		changes := []carillon.Change{{Guards: []carillon.Guard{guard}}}
		lost, err := door.Commit(ctx, changes)
		switch {
		case err != nil:
			log.Error("renew the lease of the node number", "error", err)
		case len(lost) > 0:
			return fmt.Errorf("somebody else took node number %s", guard.Key)
		default:
			guard = changes[0].Guards[0]
			ids.Extend(until)
		}
	}
}
