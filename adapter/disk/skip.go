package disk

import (
	"slices"

	"github.com/carillon-run/carillon"
)

// skips remembers, for the runs that were read last, which sealed segments have nothing more of them. Such a segment does
// not change, so a caller that follows a log does not search its index again and again. It belongs to Logs.mu.
type skips map[skipKey]*skip

type skipKey struct {
	namespace string
	run       carillon.RunID
}

type skip struct {
	after    position // what is said of the segments is true from here on
	segments map[*segment]bool
}

// maxSkips is how many runs are remembered.
const maxSkips = 64

// of returns the segments to skip when reading on after a position.
func (k skips) of(namespace string, run carillon.RunID, after position) map[*segment]bool {
	known := k[skipKey{namespace, run}]
	if known == nil || after.less(known.after) {
		return nil
	}
	return known.segments
}

func (k skips) note(namespace string, run carillon.RunID, after position, without []*segment) {
	without = slices.DeleteFunc(without, func(s *segment) bool { return s.removed }) // meanwhile: forget was told already
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

// forget is for a segment that is gone.
func (k skips) forget(s *segment) {
	for _, known := range k {
		delete(known.segments, s)
	}
}
