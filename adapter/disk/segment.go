package disk

import (
	"cmp"
	"math"
	"os"
	"slices"
	"time"

	"github.com/carillon-run/carillon"
)

// segment is a file of lines. Until it is sealed, its index is in memory. All of it belongs to Logs.mu, except what never
// changes: place, stem, and everything but sealing and removed once it is sealed.
type segment struct {
	place
	began   carillon.Time
	stem    string
	size    int64         // bytes of whole lines
	written carillon.Time // when the last of them came, by this machine's clock
	until   carillon.Time // when the last of them may go; not for the default class
	due     dues
	sealed  int // how many extents the index has that is beside it; 0: it is not sealed

	removed bool                     // by Trim
	sealing bool                     // one call is about to seal or to remove it
	held    []heldExtent             // the index of a segment that is not sealed
	last    map[carillon.RunID]int32 // a run's last one in held
	file    *os.File                 // open for appending, or nil
	used    int64                    // when, in counts of Logs.uses
}

// extent says where lines of an attempt that follow one another are, next to each other in a segment.
type extent struct {
	run      carillon.RunID
	first    int64 // offset of the first line
	attempt  int32
	lines    int32
	at, size uint32 // bytes
}

// heldExtent is chained to the one before it of the same run.
type heldExtent struct {
	extent
	before int32 // -1: there is none
}

// An extent is what is read to find a line, so it is not large; but a longer line is an extent of its own.
const (
	extentLines = 1024
	extentSize  = 64 << 10
)

func (e *extent) begin() position { return position{e.attempt, e.first} }
func (e *extent) end() position   { return position{e.attempt, e.first + int64(e.lines) - 1} }

func compareExtents(a, b extent) int {
	return cmp.Or(compareRuns(a.run, b.run), a.begin().compare(b.begin()), cmp.Compare(a.at, b.at))
}

// join makes e longer by the next, if that follows it in the run and in the file.
func (e *extent) join(next extent) bool {
	follows := e.run == next.run && e.attempt == next.attempt && e.first+int64(e.lines) == next.first && e.at+e.size == next.at
	if !follows || e.lines+next.lines > extentLines || e.size+next.size > extentSize {
		return false
	}
	e.lines, e.size = e.lines+next.lines, e.size+next.size
	return true
}

// dues is the range of due times in a segment. Runs print soon after they are due, so it tells most segments apart.
type dues struct{ min, max carillon.Time }

func (d *dues) add(t carillon.Time) { d.min, d.max = min(d.min, t), max(d.max, t) }

func (d *dues) has(t carillon.Time) bool { return d.min <= t && t <= d.max }

func newSegment(p place, began carillon.Time) *segment {
	return &segment{
		place: p, began: began, stem: stemOf(began), last: map[carillon.RunID]int32{},
		due: dues{min: math.MaxInt64, max: math.MinInt64},
	}
}

func (s *segment) name(suffix string) string { return s.path() + "/" + s.stem + suffix }

// add indexes an extent that is at the end of the file. It returns how many extents were added: none if
// it continues the last one.
func (s *segment) add(e extent) int {
	s.due.add(e.run.Due)
	if n := len(s.held); n > 0 && s.held[n-1].join(e) {
		return 0
	}
	before, ok := s.last[e.run]
	if !ok {
		before = -1
	}
	s.last[e.run] = int32(len(s.held))
	s.held = append(s.held, heldExtent{e, before})
	return 1
}

// wrote notes when lines came and how long they are kept.
func (s *segment) wrote(now carillon.Time, keep time.Duration) {
	s.written, s.until = max(s.written, now), max(s.until, now.Add(keep))
}

// after returns where in a segment that is not sealed the lines of a run after a position are, in their order.
func (s *segment) after(run carillon.RunID, after position) (found []extent) {
	i, ok := s.last[run]
	for ok && i >= 0 {
		if e := &s.held[i]; after.less(e.end()) {
			found = append(found, e.extent)
		}
		i = s.held[i].before
	}
	slices.SortFunc(found, compareExtents)
	return found
}

// gone is when Trim removes the segment.
func (s *segment) gone(keep time.Duration) carillon.Time {
	if s.class == defaultClass {
		return s.written.Add(keep)
	}
	return s.until
}

// drop forgets the index in memory. It returns how many extents there were.
func (s *segment) drop() int {
	n := len(s.held)
	s.held, s.last = nil, nil
	return n
}
