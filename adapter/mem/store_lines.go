package mem

import (
	"cmp"
	"context"

	"github.com/carillon-run/carillon"
)

// linePos is the place of a run in the line of its Hold.
type linePos struct {
	carillon.HoldName
	id carillon.RunID
}

func lineOf(run *carillon.Run) linePos {
	return linePos{carillon.HoldName{Namespace: run.Namespace, Hold: run.Hold}, run.ID}
}

func compareLines(a, b linePos) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Hold, b.Hold), compareDues(a.id, b.id))
}

// Line implements carillon.Store.
func (s *Store) Line(ctx context.Context, q carillon.LineQuery) ([]carillon.Run, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	limit := cmp.Or(q.Limit, carillon.DefaultLimit)
	var found []carillon.Run
	for _, name := range q.Lines {
		n := 0
		for pos := range s.lines.after(linePos{name, q.After}) {
			run := s.runs[pos.id]
			if pos.HoldName != name || pos.id.Due > q.Until || n == limit {
				break
			}
			if q.Wants(&run) {
				found = append(found, run)
				n++
			}
		}
	}
	return found, nil
}

// Counts implements carillon.Store.
func (s *Store) Counts(
	ctx context.Context, namespace string, now carillon.Time,
) (counts []carillon.QueueCount, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	at := map[carillon.QueueCount]int{} // where the count of a situation is
	for _, run := range s.runs {
		one, any := carillon.CountOf(&run, now)
		if !any || run.Namespace != namespace {
			continue
		}
		key := one
		key.Runs, key.Oldest = 0, 0
		i, known := at[key]
		if !known {
			i, counts = len(counts), append(counts, key)
			at[key], counts[i].Oldest = i, one.Oldest
		}
		counts[i].Runs++
		counts[i].Oldest = min(counts[i].Oldest, one.Oldest)
	}
	return counts, nil
}

// Holds implements carillon.Store.
func (s *Store) Holds(
	ctx context.Context, after carillon.HoldName, limit int,
) (names []carillon.HoldName, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(names) < cmp.Or(limit, carillon.DefaultLimit) {
		found := false
		for pos := range s.lines.after(linePos{after, carillon.RunID{Due: carillon.Never}}) {
			after, found = pos.HoldName, true
			break
		}
		if !found {
			break
		}
		names = append(names, after)
	}
	return names, nil
}
