package porttest

import (
	"context"
	"sync"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/catalog"
	"github.com/carillon-run/carillon/internal/idgen"
	"github.com/carillon-run/carillon/internal/ledger"
)

// A release is one record that every run which leaves a gate folds, and that a cancel ends together with a
// write of the gate: guards of three namespaces, and runs of many jobs, in one change.
var storeReleases = []storeCase{
	{"releases: two nodes count each run that leaves once, and none leaves after a cancel", storeRelease},
}

// releaser is a node that releases runs.
type releaser struct {
	*storeTest
	ledger  *ledger.Ledger
	catalog *catalog.Catalog
}

const released = 90

func storeRelease(t *storeTest) {
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	var nodes [2]*releaser
	for i := range nodes {
		l := ledger.New(ledger.Config{Store: t.store, IDs: idgen.New(i+1, carillon.Never)})
		running.Go(func() { _ = l.Run(ctx) })
		nodes[i] = &releaser{t, l, catalog.New(catalog.Config{Store: t.store, Ledger: l})}
	}
	for i := range released {
		t.inLine("gate/g", carillon.Time(i))
	}
	_, err := catalog.Gates.Write(ctx, nodes[0].catalog, gateG, "ann",
		func(_, next *catalog.Record[carillon.Gate], _ *carillon.Change) (remove bool, err error) {
			next.Value = carillon.Gate{
				ID: "g", Match: carillon.GateMatch{All: true}, Mode: carillon.GateHold, By: "ann", At: t.now,
			}
			return false, nil
		})
	t.must(err)

	first := nodes[0].open()
	var working sync.WaitGroup
	for _, n := range nodes {
		working.Go(func() { n.release(&first, released/9) })
	}
	working.Wait()
	for _, n := range nodes {
		working.Go(func() { n.release(&first, released/3) }) // some are left, whichever comes first
	}
	op := t.operation(&first)
	op.Namespace = carillon.DefaultNamespace
	t.must(nodes[1].catalog.CancelRelease(ctx, &op, "eve"))
	waiting := len(t.lineIDs("gate/g"))
	working.Wait()
	t.equal("runs that wait after the cancel", len(t.lineIDs("gate/g")), waiting)
	ended := t.operation(&first)
	t.equal("state", ended.State, carillon.OperationCanceled)
	t.equal("counted", ended.Done, released-waiting)

	second := nodes[1].open()
	for _, n := range nodes {
		working.Go(func() { n.release(&second, released) })
	}
	working.Wait()
	t.must(nodes[0].catalog.Load(ctx))
	t.must(nodes[0].catalog.ForgetGate(ctx, &second))
	ended = t.operation(&second)
	t.equal("state", ended.State, carillon.OperationDone)
	t.equal("counted", ended.Done, waiting)
	open, err := t.store.Guards(ctx, carillon.OpenReleaseQuery())
	t.must(err)
	t.equal("open releases", len(open), 0)
}

var gateG = catalog.Name{Namespace: carillon.DefaultNamespace, Name: "g"}

// open opens the gate.
func (n *releaser) open() (g carillon.Gate) {
	_, err := catalog.Gates.Write(n.Context(), n.catalog, gateG, "bob", func(
		was, next *catalog.Record[carillon.Gate], beside *carillon.Change,
	) (remove bool, err error) {
		g = *catalog.GateIn(was)
		err = n.catalog.OpenGate(n.Context(), &g, catalog.Opening{By: "bob", At: n.now}, beside)
		next.Value = g
		return false, err
	})
	n.must(err)
	if g.Operation == 0 {
		n.Error("a gate that holds runs opens without an operation")
	}
	return g
}

// release lets runs leave until some have, or until none can.
func (n *releaser) release(g *carillon.Gate, most int) {
	for lost := 0; lost < 3 && most > 0; lost++ { // pages in a row of which no run could leave
		page, err := n.store.Line(n.Context(), carillon.LineQuery{
			Lines: []carillon.HoldName{{Namespace: carillon.DefaultNamespace, Hold: g.Hold()}},
			Until: carillon.Never, Limit: min(7, most),
		})
		n.must(err)
		if len(page) == 0 {
			return
		}
		changes := make([]carillon.Change, len(page))
		for i := range page {
			page[i].Hold, page[i].Wake = "", n.now
			changes[i] = carillon.Change{Runs: page[i : i+1 : i+1], Folds: []carillon.Fold{g.Left()}}
		}
		stayed, err := n.ledger.Commit(n.Context(), changes)
		n.must(err)
		if left := len(page) - len(stayed); left > 0 {
			most, lost = most-left, -1
		}
	}
}

// operation reads the operation of a gate.
func (t *storeTest) operation(g *carillon.Gate) carillon.Operation {
	t.Helper()
	guards, err := t.store.Guards(t.Context(), carillon.GuardQuery{
		Namespace: carillon.DefaultNamespace, Keys: []string{g.Operation.Key()},
	})
	t.must(err)
	if len(guards) != 1 {
		t.Fatalf("there are %d operations", len(guards))
	}
	record, err := carillon.OperationOf(&guards[0])
	t.must(err)
	return record.Operation
}
