package mem

import (
	"cmp"
	"context"
	"slices"

	"github.com/carillon-run/carillon"
)

// Forget implements carillon.Store. It removes a one-off job together with the job's last record.
func (s *Store) Forget(
	ctx context.Context, rule carillon.Retention, now carillon.Time, limit int,
) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	forgotten := 0
	for _, r := range overdue(&s.history, rule.Runs, now, func(r *record) carillon.Time {
		return r.Expires
	}) {
		if forgotten == limit {
			return forgotten, nil
		}
		s.history.remove(r.place)
		s.clean(r.ID)
		forgotten++
	}
	for _, r := range overdue(&s.dead, rule.DeadLetters, now, func(r *record) carillon.Time {
		return r.DeadExpires
	}) {
		if forgotten == limit {
			return forgotten, nil
		}
		s.dead.remove(r.place)
		s.clean(r.ID)
		forgotten++
	}
	for _, key := range s.expired(now.Add(-carillon.GuardGrace)) {
		if forgotten == limit {
			break
		}
		delete(s.guards, key)
		forgotten++
	}
	return forgotten, nil
}

// expired returns the guards that had expired at a time, earliest first.
func (s *Store) expired(at carillon.Time) (keys []guardKey) {
	for key, g := range s.guards {
		if g.Expired(at) {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b guardKey) int {
		return cmp.Or(
			cmp.Compare(s.guards[a].Expires, s.guards[b].Expires), cmp.Compare(a.namespace, b.namespace),
			cmp.Compare(a.key, b.key),
		)
	})
	return keys
}

// overdue returns the records that a table need not keep at now: first those under the server's rule, in the
// order in which they ended, then those with their own expiry, earliest first. A rule of 0 removes nothing.
func overdue(
	t *table, keep carillon.Duration, now carillon.Time, expiry func(*record) carillon.Time,
) []*record {
	var byRule, byOwn []*record
	for place := range t.places.after(0) {
		r := t.rows[place]
		switch own := expiry(r); {
		case own == 0 && keep != 0 && r.Ended <= now.Add(-keep.Std()):
			byRule = append(byRule, r)
		case own != 0 && own <= now:
			byOwn = append(byOwn, r)
		}
	}
	slices.SortStableFunc(byOwn, func(a, b *record) int { return cmp.Compare(expiry(a), expiry(b)) })
	return append(byRule, byOwn...)
}

// clean removes data that only a forgotten run needed.
func (s *Store) clean(id carillon.RunID) {
	if _, exists := s.run(id); !exists {
		delete(s.outputs, id)
		delete(s.attempts, id)
	}
	j := s.jobs[id.Job]
	if j == nil || !j.oneOff || s.ofJob[id.Job] != nil || s.history.ofJob[id.Job] != nil ||
		s.dead.ofJob[id.Job] != nil {
		return
	}
	delete(s.jobs, id.Job)
	s.ids.remove(id.Job)
	delete(s.guards, guardKey{j.Namespace, id.Job.OverlapKey()})
}
