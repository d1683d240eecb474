package node

import (
	"context"

	"github.com/carillon-run/carillon/internal/catalog"
)

// openCatalog reads what operators have set, and lets the other parts know whenever it changes.
func (n *Node) openCatalog(ctx context.Context) error {
	n.catalog = catalog.New(catalog.Config{Store: n.backend.Store, Ledger: n.ledger, Logger: n.cfg.Logger})
	n.ledger.UseLimits(n.catalog.LimitsOf)
	n.ledger.UseGates(n.catalog)
	n.scheduler.UseGates(n.catalog)
	queues, weighsQueues := n.backend.Queue.(interface{ SetWeights(map[string]int) })
	namespaces, weighsNamespaces := n.backend.Queue.(interface{ SetNamespaceWeights(map[string]int) })
	n.catalog.Listen(func(before, after *catalog.Snapshot) {
		if weighsQueues {
			queues.SetWeights(after.Weights())
		}
		if weighsNamespaces {
			namespaces.SetNamespaceWeights(after.NamespaceWeights())
		}
		n.scheduler.LookAt(after.Lines(before)...)
		n.scheduler.GatesChanged()
	})
	return n.catalog.Load(ctx)
}
