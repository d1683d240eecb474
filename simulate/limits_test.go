package simulate

import (
	"context"
	"fmt"

	"github.com/carillon-run/carillon"
)

// someLimits are limits of a job: of a key with one slot, of one with two, or of both. Some runs weigh two.
func (w *world) someLimits(number int) (limits []carillon.Limit) {
	if number/3%3 < 2 {
		limits = append(limits, carillon.Limit{Key: "one", Concurrency: 1})
	}
	if number/3%3 > 0 {
		limits = append(limits, carillon.Limit{Key: "two", Concurrency: 2, Weight: 1 + number%2})
	}
	return limits
}

// checkLimits checks that attempts never took more slots of a key than it has, by what witnesses saw, and
// that nothing is left of limits when all runs have ended. A body that stood still in a freeze does not know
// that its run was given to another worker.
func (w *world) checkLimits(ctx context.Context, settled bool, v *verdict) {
	all := w.journal.byStart()
	for i := range all {
		a := &all[i]
		for _, l := range a.limits {
			used, by := 0, ""
			for k := range all[:i+1] {
				b := &all[k]
				if b.tenant != a.tenant || !b.end.IsZero() && !a.start.Before(b.end) {
					continue
				}
				for _, other := range b.limits {
					if other.Key != l.Key {
						continue
					}
					if b.thawed.After(a.start) && !b.end.IsZero() && b.end.Sub(b.thawed) <= afterThaw {
						v.frozen++
						continue
					}
					used += other.Weight
					by += fmt.Sprintf("\n%s", b)
				}
			}
			if used > l.Concurrency {
				v.breaks("limits: %d of %d slots of %s were taken:%s", used, l.Concurrency, l.Key, by)
			}
		}
	}
	if !settled {
		return
	}
	for _, tenant := range w.tenants {
		guards, err := w.store.Guards(ctx, carillon.GuardQuery{Namespace: tenant, Prefix: "limit/"})
		if err != nil {
			w.t.Fatal(err)
		}
		for _, g := range guards {
			if g.UsedSlots() != 0 {
				v.breaks("limits: all runs have ended, and %s of %s is %s", g.Key, tenant, g.Value)
			}
		}
	}
}
