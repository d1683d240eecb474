package simulate

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/carillon-run/carillon"
)

// notOf is a tenant whose job it is not.
func (w *world) notOf(o *order) string {
	return w.tenants[(slices.Index(w.tenants, o.tenant)+1)%len(w.tenants)]
}

// trespass sends a command about a job in the name of a tenant whose job it is not. It must be refused as if
// there were no such job. If it has an effect all the same, the check finds that no caller asked for it in
// the name of its tenant.
func (w *world) trespass() {
	command := w.random.IntN(5)
	w.command("trespass", func(ctx context.Context, at *node, o *order) (err error) {
		tenant, job := w.notOf(o), o.known()
		switch command {
		case 0:
			_, err = at.ledger.CancelJob(ctx, tenant, job, false)
		case 1:
			_, err = at.ledger.PauseJob(ctx, tenant, job)
		case 2:
			_, err = at.ledger.ResumeJob(ctx, tenant, job)
		case 3:
			_, err = at.ledger.RunNow(ctx, tenant, job, nil)
		default:
			_, err = at.ledger.EditJob(ctx, tenant, job, func(d *carillon.Definition) error {
				d.Payload = json.RawMessage(`{"Fails": 100}`)
				return nil
			})
		}
		if err == nil || errors.Is(err, carillon.ErrConflict) {
			w.journal.trespassed(o.def.Name)
		}
		return err
	}, func(*order, error) {})
}

// trespassed notes that a command of another tenant was answered as if the job were its own.
func (j *journal) trespassed(job string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.trespasses = append(j.trespasses, job)
}

// flood keeps all workers busy that may work for the first tenant. The others have a worker of their own.
func (w *world) flood() {
	w.startWorkerOf(w.tenants[1], 10)
	defs := make([]carillon.Definition, 100)
	for i := range defs {
		d := &defs[i]
		d.Name, d.Type, d.Target.Handler = "flood", "test", &carillon.Handler{}
		d.Payload, _ = json.Marshal(work{Takes: 5 * time.Second})
		if err := d.Admit(w.nodes[0].clock.Now()); err != nil {
			w.t.Fatal(err)
		}
	}
	if _, err := w.nodes[0].ledger.Submit(context.Background(), w.tenants[0], defs); err != nil {
		w.t.Fatal(err)
	}
}

// checkTenants checks that no tenant sees, changes or performs what is another's.
func (w *world) checkTenants(ctx context.Context, v *verdict) {
	for _, name := range w.journal.trespasses {
		v.breaks("tenants: a command about %s was accepted from another one", name)
	}
	for _, a := range w.journal.byStart() {
		if a.process.serves != "" && a.process.serves != a.tenant {
			v.breaks("tenants: a worker of %s performed a run of %s:\n%s", a.process.serves, a.tenant, a)
		}
	}
	for _, o := range w.orders {
		if o.job == 0 || w.notOf(o) == o.tenant {
			continue
		}
		for _, run := range w.find(ctx, carillon.RunQuery{Namespace: w.notOf(o), Job: o.job, Limit: 10}) {
			v.breaks("tenants: another one finds %s", row(run))
		}
	}
}
