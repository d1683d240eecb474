package disk

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"slices"

	"github.com/carillon-run/carillon"
)

// openFor returns the segment of a place that has room for size more bytes, with its file.
func (l *Logs) openFor(p place, size int64, now carillon.Time) (*segment, error) {
	k := l.packs[p]
	if k != nil && k.open != nil && k.open.size+size > l.limits.size {
		l.fill(k.open)
	}
	if k != nil && k.open != nil {
		if err := l.reopen(k.open); err == nil {
			return k.open, nil
		}
		l.fill(k.open) // a person removed or cut it: the rest can still be read
	}
	return l.create(p, now)
}

// create begins a segment.
func (l *Logs) create(p place, now carillon.Time) (*segment, error) {
	if err := l.root.MkdirAll(p.path(), 0o750); err != nil {
		return nil, err
	}
	for {
		s := newSegment(p, now)
		f, err := l.root.OpenFile(s.name(logSuffix), os.O_WRONLY|os.O_APPEND|os.O_CREATE|os.O_EXCL, 0o640)
		if errors.Is(err, fs.ErrExist) {
			now++ // two segments began in the same millisecond
			continue
		}
		if err != nil {
			return nil, err
		}
		l.keepOpen(s, f)
		k := l.pack(p)
		k.segments, k.open = append(k.segments, s), s
		return s, nil
	}
}

func (l *Logs) pack(p place) *pack {
	k := l.packs[p]
	if k == nil {
		k = &pack{}
		l.packs[p] = k
	}
	return k
}

// reopen makes sure that the segment's file is open.
func (l *Logs) reopen(s *segment) error {
	if s.file == nil {
		f, err := l.root.OpenFile(s.name(logSuffix), os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			return err
		}
		if info, err := f.Stat(); err != nil || info.Size() != s.size || !info.Mode().IsRegular() {
			return cmp.Or(err, error(fs.ErrInvalid), f.Close())
		}
		l.keepOpen(s, f)
	}
	l.uses++
	s.used = l.uses
	return nil
}

// keepOpen registers an open file. If too many are open, it closes the one that was not used for longest.
func (l *Logs) keepOpen(s *segment, f *os.File) {
	if len(l.files) >= l.limits.files {
		l.closeFile(slices.MinFunc(l.files, func(a, b *segment) int { return cmp.Compare(a.used, b.used) }))
	}
	l.uses++
	s.file, s.used = f, l.uses
	l.files = append(l.files, s)
}

func (l *Logs) closeFile(s *segment) {
	if s.file != nil {
		_ = s.file.Close() // nothing was synced, so there is nothing to report
		s.file = nil
		l.files = slices.DeleteFunc(l.files, func(other *segment) bool { return other == s })
	}
}

// fill marks a segment as full: it takes no more lines and is to be sealed.
func (l *Logs) fill(s *segment) {
	l.retire(s)
	l.full = append(l.full, s)
}

// retire says that a segment takes no more lines, and that the caller is about to seal or remove it.
func (l *Logs) retire(s *segment) {
	l.closeFile(s)
	if k := l.packs[s.place]; k.open == s {
		k.open = nil
		l.gathered -= len(s.held)
	}
	s.sealing = true
}

// fillLargest keeps the number of extents of open segments within its limit.
func (l *Logs) fillLargest() {
	if l.gathered <= l.limits.held {
		return
	}
	var largest *segment
	for _, k := range l.packs {
		if k.open != nil && (largest == nil || len(k.open.held) > len(largest.held)) {
			largest = k.open
		}
	}
	if largest != nil {
		l.fill(largest)
	}
}

// takeFull returns the segments that have become full. The caller seals them.
func (l *Logs) takeFull() []*segment {
	full := l.full
	l.full = nil
	return full
}
