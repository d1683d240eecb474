package disk

import (
	"slices"

	"github.com/carillon-run/carillon"
)

// skips remembers, for the runs that were read last, which sealed segments have no more lines of them. A
// sealed segment does not change, so a caller that follows a log does not search its index again and again.
// Logs.mu guards it.
type skips map[skipKey]*skip

type skipKey struct {
	namespace string
	run       carillon.RunID
}

type skip struct {
	after    position // segments have no lines of the run after this position
	segments map[*segment]bool
}

// maxSkips is how many runs are remembered.
const maxSkips = 64

// of returns the segments to skip when a caller reads on after a position.
func (k skips) of(namespace string, run carillon.RunID, after position) map[*segment]bool {
	known := k[skipKey{namespace, run}]
	if known == nil || after.less(known.after) {
		return nil
	}
	return known.segments
}

func (k skips) note(namespace string, run carillon.RunID, after position, without []*segment) {
	// Leave out segments that were removed meanwhile: forget was called for them already.
	without = slices.DeleteFunc(without, func(s *segment) bool { return s.removed })
	if len(without) == 0 {
		return
	}
	key := skipKey{namespace, run}
	known := k[key]
	if known == nil || after.less(known.after) {
		for other := range k {
			if len(k) < maxSkips {
				break
			}
			delete(k, other)
		}
		known = &skip{segments: map[*segment]bool{}}
		k[key] = known
	}
	known.after = after
	for _, s := range without {
		known.segments[s] = true
	}
}

// forget removes a segment that is gone.
func (k skips) forget(s *segment) {
	for _, known := range k {
		delete(known.segments, s)
	}
}
