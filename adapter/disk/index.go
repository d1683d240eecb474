package disk

import (
	"context"
	"errors"
	"io"
	"math"
	"os"
	"slices"
	"sync"

	"github.com/carillon-run/carillon"
)

// index knows where in a file to find a position. It is made by reading the file once, and grows with it by reading
// what is new, so following a log costs what is printed.
//
// Positions rise through a file, but for chunks that were sent twice or out of order. Wherever they do not, a new
// stretch begins; within a stretch they rise. Reading in order is merging the stretches, and in most files there is one.
type index struct {
	mu        sync.Mutex
	file      os.FileInfo // which file it knows: Trim may have removed that one
	scanned   int64
	stretches []stretch
	used      int64 // when, in calls of find
	size      int   // of what it remembers, as counted by indexes
}

type stretch struct {
	first, last position
	end         int64
	marks       []mark // where some of its lines begin, the first line among them
}

type mark struct {
	position
	at int64
}

// markEvery is how many bytes may have to be read in vain to find a position.
const markEvery = 64 << 10

// update reads what the file has more than the index knows, and returns a copy of its stretches.
func (x *index) update(ctx context.Context, f *os.File) ([]stretch, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.file == nil || !os.SameFile(x.file, info) || info.Size() < x.scanned {
		x.file, x.scanned, x.stretches = info, 0, nil
	}
	if info.Size() > x.scanned {
		if err := x.scan(ctx, f); err != nil {
			return nil, err
		}
	}
	return append([]stretch(nil), x.stretches...), nil // marks are only ever appended to
}

func (x *index) scan(ctx context.Context, f *os.File) error {
	r := newReader(f, x.scanned, math.MaxInt64)
	for n := 0; ; n++ {
		rec, at, err := r.read()
		if err == nil && n%1024 == 0 {
			err = ctx.Err()
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				x.scanned, err = r.next, nil
			}
			return err
		}
		x.note(mark{rec.position, at}, r.next)
		x.scanned = r.next
	}
}

func (x *index) note(m mark, end int64) {
	if n := len(x.stretches); n == 0 || !x.stretches[n-1].last.less(m.position) {
		x.stretches = append(x.stretches, stretch{first: m.position})
	}
	s := &x.stretches[len(x.stretches)-1]
	s.last, s.end = m.position, end
	if n := len(s.marks); n == 0 || m.at-s.marks[n-1].at >= markEvery {
		s.marks = append(s.marks, m)
	}
}

// from is a byte position at or before the first line of the stretch after the given position.
func (s *stretch) from(after position) int64 {
	i, exact := slices.BinarySearchFunc(s.marks, after, func(m mark, p position) int { return m.compare(p) })
	if !exact {
		i = max(i-1, 0)
	}
	return s.marks[i].at
}

// indexes are those of the files read last.
type indexes struct {
	mu    sync.Mutex
	files map[fileKey]*index
	calls int64
	size  int
}

type fileKey struct {
	place
	run carillon.RunID
}

// What may be remembered: files, and marks in all of them. A mark weighs 24 bytes and covers 64 KiB.
const (
	maxIndexes = 512
	maxMarks   = 1 << 18
)

func (xs *indexes) find(key fileKey) *index {
	xs.mu.Lock()
	defer xs.mu.Unlock()
	x := xs.files[key]
	if x == nil {
		x = &index{}
		xs.files[key] = x
	}
	xs.calls++
	x.used = xs.calls
	return x
}

// weigh counts what an index has become, and forgets those not used for longest until the rest fits.
func (xs *indexes) weigh(key fileKey, x *index, stretches []stretch) {
	size := 0
	for i := range stretches {
		size += len(stretches[i].marks) + 4
	}
	xs.mu.Lock()
	defer xs.mu.Unlock()
	if xs.files[key] != x {
		return // forgotten already
	}
	xs.size += size - x.size
	x.size = size
	for len(xs.files) > maxIndexes || xs.size > maxMarks && len(xs.files) > 1 {
		xs.evict()
	}
}

func (xs *indexes) evict() {
	var oldest fileKey
	used := int64(math.MaxInt64)
	for key, x := range xs.files {
		if x.used < used {
			oldest, used = key, x.used
		}
	}
	xs.size -= xs.files[oldest].size
	delete(xs.files, oldest)
}
