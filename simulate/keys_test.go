package simulate

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/carillon-run/carillon"
)

// withKey performs a write with an idempotency key until it is answered. A repeated one is answered as the
// first one was.
func (w *world) withKey(key string, do func(ctx context.Context, n *node) error, use func(carillon.Use)) {
	w.insist(key+" with a key", func(ctx context.Context, n *node) error {
		once, err := carillon.NewOnce("key", key)
		if err != nil {
			w.t.Fatal(err)
		}
		once.Request, once.At = key, n.clock.Now()
		once.Answer = func(_ *carillon.Job, run *carillon.Run) (json.RawMessage, error) {
			return json.Marshal(run)
		}
		err = do(once.Context(ctx), n)
		var repeated *carillon.RepeatedError
		if errors.As(err, &repeated) {
			use(repeated.Use)
			return nil
		}
		return err
	})
}

// repeated submits orders in one batch with an idempotency key, and runs the first one once more with another
// key. Whatever calls to the store fail, each order is there once, and the first one has two runs.
func (w *world) repeated(orders ...*order) {
	w.withKey("submit", func(ctx context.Context, n *node) error {
		defs := make([]carillon.Definition, len(orders))
		for i, o := range orders {
			defs[i] = o.def
			if err := defs[i].Admit(carillon.OnceOf(ctx).At); err != nil {
				w.t.Fatal(err)
			}
		}
		jobs, err := n.ledger.Submit(ctx, carillon.DefaultNamespace, defs)
		for i := range jobs {
			orders[i].job = jobs[i].ID
		}
		return err
	}, func(use carillon.Use) {
		for i := range orders {
			orders[i].job = use.Jobs[i]
		}
	})
	w.orders = append(w.orders, orders...)
	first := orders[0]
	var asked carillon.Run
	w.withKey("run now", func(ctx context.Context, n *node) error {
		run, err := n.ledger.RunNow(ctx, carillon.DefaultNamespace, first.job, nil)
		if err == nil {
			asked = run
		}
		return err
	}, func(use carillon.Use) {
		if err := json.Unmarshal(use.Answer, &asked); err != nil {
			w.t.Error(err)
		}
	})
	first.heard(asked, nil)
	w.expectOnce(orders)
}

func (w *world) expectOnce(orders []*order) {
	for _, o := range orders {
		page, err := w.store.FindJobs(context.Background(), carillon.JobQuery{Name: o.def.Name, Limit: 10})
		if err != nil || len(page.Jobs) != 1 || page.Jobs[0].ID != o.job {
			w.t.Errorf("%s was heard of as %s, and there are %d: %v", o.def.Name, o.job, len(page.Jobs), err)
		}
	}
	runs, err := w.store.FindRuns(context.Background(), carillon.RunQuery{Job: orders[0].job, Limit: 10})
	if err != nil || len(runs.Runs) != 2 {
		w.t.Errorf("%d runs of a job that was run once more: %v", len(runs.Runs), err)
	}
}
