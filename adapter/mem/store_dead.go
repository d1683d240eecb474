package mem

import (
	"cmp"
	"context"
	"slices"

	"github.com/carillon-run/carillon"
)

// DeadGroups implements carillon.Store. It reads all dead letters.
func (s *Store) DeadGroups(
	ctx context.Context, q carillon.DeadGroupQuery,
) ([]carillon.DeadGroup, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	groups := map[carillon.Fingerprint]*carillon.DeadGroup{}
	types := map[carillon.Fingerprint]map[string]int{}
	for place := range s.dead.places.after(0) {
		letter := s.dead.rows[place]
		if letter.Namespace != q.Namespace || q.Type != "" && letter.About.Type != q.Type {
			continue
		}
		f, text := carillon.FingerprintOf(letter.Reason)
		g := groups[f]
		if g == nil {
			g = &carillon.DeadGroup{Fingerprint: f, Error: text, First: letter.Ended}
			groups[f], types[f] = g, map[string]int{}
		}
		g.Count++
		g.Sample = letter.Reason
		g.First, g.Last = min(g.First, letter.Ended), max(g.Last, letter.Ended)
		types[f][letter.About.Type]++
	}
	found := []carillon.DeadGroup{}
	for f, g := range groups {
		g.Types = carillon.FrequentTypes(types[f])
		found = append(found, *g)
	}
	slices.SortFunc(found, func(a, b carillon.DeadGroup) int { return cmp.Compare(b.Count, a.Count) })
	return found[:min(len(found), cmp.Or(q.Limit, carillon.DefaultLimit))], nil
}
