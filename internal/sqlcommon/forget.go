package sqlcommon

import "github.com/carillon-run/carillon"

// Past names a record of history or a dead letter.
type Past struct {
	Place int64
	ID    carillon.RunID
	Ended carillon.Time
	Dead  bool
}

// PastSource names records that can go at a time.
type PastSource struct {
	Table RunTable // TableHistory or TableDead
	Own   bool     // by their own expiry; otherwise by the server's rule
}

// Overdue adds to found the records that can go, up to limit in all. Each store itself finds the records of
// history that go by the server's rule, which are nearly all, and passes them in found.
func Overdue(
	found []Past, rule carillon.Retention, now carillon.Time, limit int,
	read func(from PastSource, until carillon.Time, limit int) ([]Past, error),
) ([]Past, error) {
	for _, from := range []struct {
		PastSource
		until carillon.Time
		off   bool
	}{
		{PastSource{TableHistory, true}, now, false},
		{PastSource{TableDead, false}, now.Add(-rule.DeadLetters.Std()), rule.DeadLetters == 0},
		{PastSource{TableDead, true}, now, false},
	} {
		if from.off || len(found) >= limit {
			continue
		}
		some, err := read(from.PastSource, from.until, limit-len(found))
		if err != nil {
			return nil, err
		}
		found = append(found, some...)
	}
	return found, nil
}

// MaxYoung is how many records that must stay a search by the server's rule passes before it stops looking
// for older ones behind them. Records are nearly in the order of their time, but a clock that was fast may
// have written that many.
const MaxYoung = 1000

// ByRule collects the records that go by the server's rule, in the order of their places.
type ByRule struct {
	Until   carillon.Time // records that ended later stay
	Limit   int
	Found   []Past
	Reached int64 // up to this place no record is left for the rule once those found are gone
	young   int
}

// Add takes the next record. It returns false if the search has found enough.
func (r *ByRule) Add(p Past) (more bool) {
	if p.Ended > r.Until {
		r.young++
		return r.young < MaxYoung
	}
	if r.young == 0 {
		r.Reached = p.Place
	}
	r.Found = append(r.Found, p)
	return len(r.Found) < r.Limit
}
