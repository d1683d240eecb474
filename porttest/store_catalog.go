package porttest

import (
	"context"
	"fmt"
	"sync"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/catalog"
	"github.com/carillon-run/carillon/internal/ledger"
)

// The catalog is a package above the store. Its records are guards in a namespace that begins with a slash,
// and all of its writers fold one guard.
var storeCatalog = []storeCase{
	{"catalog: no write of two nodes is lost, and every node finds the same records", func(t *storeTest) {
		const records, edits = 10, 5
		t.catalogs(func(nodes [2]*catalog.Catalog) {
			var writers sync.WaitGroup
			for i := range records * edits {
				name := catalog.Name{Namespace: "a/b", Name: fmt.Sprintf("queue/%d", i%records)}
				writers.Go(func() {
					_, err := catalog.Queues.Write(t.Context(), nodes[i%2], name, "ann",
						func(
							was, next *catalog.Record[catalog.Queue], _ *carillon.Change,
						) (remove bool, err error) {
							if was != nil {
								next.Value = was.Value
							}
							next.Value.Weight++
							return false, nil
						})
					if err != nil {
						t.Error(err)
					}
				})
			}
			writers.Wait()
			gone := catalog.Name{Namespace: "a/b", Name: "queue/0"}
			if _, err := catalog.Queues.Write(t.Context(), nodes[0], gone, "bob", func(
				_, _ *catalog.Record[catalog.Queue], _ *carillon.Change,
			) (remove bool, err error) {
				return true, nil
			}); err != nil {
				t.Error(err)
			}
			later := catalog.New(catalog.Config{Store: t.store})
			for _, node := range []*catalog.Catalog{nodes[0], nodes[1], later} {
				if err := node.Load(t.Context()); err != nil { // as each node does twice a second
					t.Fatal(err)
				}
				all := node.Now().Queues.All("a/b")
				t.equal("records", len(all), records-1)
				for i, r := range all {
					t.equal("name", r.Name.Name, fmt.Sprintf("queue/%d", i+1))
					t.equal("weight", r.Value.Weight, edits)
					t.equal("by", r.By, "ann")
					t.equal("revision", r.Rev, int32(edits))
				}
			}
		})
	}},
}

// catalogs runs the catalogs of two nodes.
func (t *storeTest) catalogs(use func(nodes [2]*catalog.Catalog)) {
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	var nodes [2]*catalog.Catalog
	for i := range nodes {
		l := ledger.New(ledger.Config{Store: t.store, Flushers: 2})
		running.Go(func() { _ = l.Run(ctx) })
		nodes[i] = catalog.New(catalog.Config{Store: t.store, Ledger: l})
	}
	use(nodes)
}
