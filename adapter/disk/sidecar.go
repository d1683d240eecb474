package disk

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sort"

	"github.com/carillon-run/carillon"
)

// The index beside a sealed segment is a head and its extents, sorted, all of one size: a run is found by
// bisection with some twenty small reads, and no part of the index has to be in memory. Numbers are
// little-endian.
const (
	indexMagic  = "carillon"
	headSize    = 64
	extentWidth = 40
	indexPage   = 64 // extents that are read at once
)

func (s *segment) appendHead(b []byte, extents int) []byte {
	b = append(b, indexMagic...)
	for _, n := range []int64{
		1, int64(extents), s.size, int64(s.written), int64(s.until), int64(s.due.min), int64(s.due.max),
	} {
		b = binary.LittleEndian.AppendUint64(b, uint64(n))
	}
	return b
}

// parseHead undoes appendHead.
func (s *segment) parseHead(b []byte) (extents int64, ok bool) {
	var n [7]int64
	for i := range n {
		n[i] = int64(binary.LittleEndian.Uint64(b[len(indexMagic)+8*i:]))
	}
	s.size, s.written, s.until = n[2], carillon.Time(n[3]), carillon.Time(n[4])
	s.due = dues{carillon.Time(n[5]), carillon.Time(n[6])}
	return n[1], string(b[:len(indexMagic)]) == indexMagic && n[0] == 1 && n[1] > 0
}

func appendExtent(b []byte, e *extent) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(e.run.Due))
	b = binary.LittleEndian.AppendUint64(b, uint64(e.run.Job))
	b = binary.LittleEndian.AppendUint64(b, uint64(e.first))
	for _, n := range []uint32{uint32(e.attempt), uint32(e.lines), e.at, e.size} {
		b = binary.LittleEndian.AppendUint32(b, n)
	}
	return b
}

func parseExtent(b []byte) extent {
	long, short := binary.LittleEndian.Uint64, binary.LittleEndian.Uint32
	return extent{
		run:     carillon.RunID{Due: carillon.Time(long(b)), Job: carillon.JobID(long(b[8:]))},
		first:   int64(long(b[16:])),
		attempt: int32(short(b[24:])), lines: int32(short(b[28:])), at: short(b[32:]), size: short(b[36:]),
	}
}

// seal writes the indexes of segments that take no more lines. If that fails, the index stays in memory.
func (l *Logs) seal(full []*segment) (err error) {
	for _, s := range full {
		err = errors.Join(err, l.sealOne(s))
	}
	return err
}

func (l *Logs) sealOne(s *segment) error {
	// Sort a copy: held does not change any more, but readers follow its chains.
	sorted := make([]extent, len(s.held))
	for i := range s.held {
		sorted[i] = s.held[i].extent
	}
	slices.SortFunc(sorted, compareExtents)
	var err error
	if len(sorted) > 0 {
		err = l.writeIndex(s, sorted)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s.sealing = false
	if err != nil {
		return fmt.Errorf("seal %s: %w", s.name(logSuffix), err)
	}
	s.sealed = len(sorted)
	l.held -= s.drop()
	return nil
}

// writeIndex syncs the segment and its index before the index gets its name.
func (l *Logs) writeIndex(s *segment, sorted []extent) error {
	b := s.appendHead(make([]byte, 0, headSize+extentWidth*len(sorted)), len(sorted))
	for i := range sorted {
		b = appendExtent(b, &sorted[i])
	}
	lines, err := l.root.Open(s.name(logSuffix))
	if err != nil {
		return err
	}
	if err := cmp.Or(lines.Sync(), lines.Close()); err != nil {
		return err
	}
	f, err := l.root.OpenFile(s.name(writingSuffix), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o640)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err = cmp.Or(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(err, l.root.Remove(s.name(writingSuffix)))
	}
	return l.root.Rename(s.name(writingSuffix), s.name(indexSuffix))
}

// readHead says whether the segment has an index beside it that fits.
func (l *Logs) readHead(s *segment, size int64) (ok bool, err error) {
	f, err := l.root.Open(s.name(indexSuffix))
	if err != nil {
		return false, ifThere(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() < headSize {
		return false, err
	}
	var head [headSize]byte
	if _, err := f.ReadAt(head[:], 0); err != nil {
		return false, err
	}
	extents, ok := s.parseHead(head[:])
	if !ok || info.Size() != headSize+extents*extentWidth || s.size > size {
		return false, nil
	}
	s.sealed, s.last = int(extents), nil
	return true, nil
}

// findExtents searches the index of a sealed segment. It returns the number of the first extent that can have
// lines of a run after a position.
func findExtents(f *os.File, s *segment, run carillon.RunID, after position) (int, error) {
	// An extent that begins before the position can reach beyond it, but not by more lines than an extent
	// has.
	from := extent{run: run, attempt: after.attempt, first: after.offset - extentLines}
	var err error
	i := sort.Search(s.sealed, func(i int) bool {
		page, e := readExtents(f, i, 1)
		if e != nil {
			err = e
			return true
		}
		return compareExtents(page[0], from) >= 0
	})
	return i, err
}

func readExtents(f io.ReaderAt, from, n int) ([]extent, error) {
	b := make([]byte, n*extentWidth)
	if _, err := f.ReadAt(b, headSize+int64(from)*extentWidth); err != nil {
		return nil, err
	}
	page := make([]extent, n)
	for i := range page {
		page[i] = parseExtent(b[i*extentWidth:])
	}
	return page, nil
}
