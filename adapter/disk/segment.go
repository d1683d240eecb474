package disk

import (
	"cmp"
	"math"
	"os"
	"slices"
	"time"

	"github.com/carillon-run/carillon"
)

// segment is a file of lines. Until it is sealed, its index is in memory. Logs.mu guards it, except for what
// never changes: place, stem, and, once it is sealed, everything but sealing and removed.
type segment struct {
	place
	began   carillon.Time
	stem    string
	size    int64         // bytes of complete lines
	written carillon.Time // when the last line came, by this machine's clock
	until   carillon.Time // when the last line can go; not for the default class
	due     dues
	sealed  int // number of extents in the index beside it; 0: it is not sealed

	removed bool                     // by Trim
	sealing bool                     // a call is about to seal or remove it
	held    []heldExtent             // the index of a segment that is not sealed
	last    map[carillon.RunID]int32 // index in held of a run's last extent
	file    *os.File                 // open for appending, or nil
	used    int64                    // Logs.uses at its last use
}

// extent says where consecutive lines of an attempt lie, next to each other in a segment.
type extent struct {
	run      carillon.RunID
	first    int64 // offset of the first line
	attempt  int32
	lines    int32
	at, size uint32 // bytes
}

// heldExtent is chained to the previous one of the same run.
type heldExtent struct {
	extent
	before int32 // -1: there is none
}

// An extent is read as a whole to find one line, so it is not large. But a line that is longer is one extent
// by itself.
const (
	extentLines = 1024
	extentSize  = 64 << 10
)

func (e *extent) begin() position { return position{e.attempt, e.first} }
func (e *extent) end() position   { return position{e.attempt, e.first + int64(e.lines) - 1} }

func compareExtents(a, b extent) int {
	return cmp.Or(compareRuns(a.run, b.run), a.begin().compare(b.begin()), cmp.Compare(a.at, b.at))
}

// join makes e longer by the next extent, if that follows e in the run and in the file.
func (e *extent) join(next extent) bool {
	follows := e.run == next.run && e.attempt == next.attempt && e.first+int64(e.lines) == next.first &&
		e.at+e.size == next.at
	if !follows || e.lines+next.lines > extentLines || e.size+next.size > extentSize {
		return false
	}
	e.lines, e.size = e.lines+next.lines, e.size+next.size
	return true
}

// dues is the range of due times in a segment. Runs print soon after they are due, so the range rules out
// most segments.
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

// add indexes an extent at the end of the file. It returns how many extents it added: none if the extent
// continues the last one.
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

// wrote records when lines came and how long they are kept.
func (s *segment) wrote(now carillon.Time, keep time.Duration) {
	s.written, s.until = max(s.written, now), max(s.until, now.Add(keep))
}

// after returns the extents of a segment that is not sealed that have lines of a run after a position, in
// order.
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

// gone returns the time after which Trim removes the segment.
func (s *segment) gone(keep time.Duration) carillon.Time {
	if s.class == defaultClass {
		return s.written.Add(keep)
	}
	return s.until
}

// drop frees the index in memory. It returns how many extents there were.
func (s *segment) drop() int {
	n := len(s.held)
	s.held, s.last = nil, nil
	return n
}
