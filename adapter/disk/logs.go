package disk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"

	"github.com/carillon-run/carillon"
)

// limits say when a segment is full, and how much is held for all segments together. Tests have smaller ones.
type limits struct {
	size    int64 // bytes of a segment
	extents int   // of a segment
	held    int   // extents in memory, of all segments
	files   int   // open at the same time
}

// A held extent takes about 100 bytes. The size stays far below 4 GiB, the largest position that an extent
// can have.
var defaultLimits = limits{size: 64 << 20, extents: 1 << 17, held: 1 << 18, files: 32}

// Logs is a carillon.LogStore under one directory. One process at a time writes to it.
type Logs struct {
	root   *os.Root
	limits limits
	logger *slog.Logger
	// write is (*os.File).Write, except in tests of a full disk.
	write func(*os.File, []byte) (int, error)

	mu       sync.Mutex
	packs    map[place]*pack
	held     int        // extents in memory
	gathered int        // those of open segments among them
	full     []*segment // to be sealed
	files    []*segment // whose files are open
	uses     int64      // how often files were used so far
	skips    skips
}

// pack has the segments of a place.
type pack struct {
	segments []*segment
	open     *segment // the segment that takes lines, or nil
}

// Config configures Logs. The zero value works.
type Config struct {
	Logger *slog.Logger // default slog.Default()
}

// NewLogs opens the directory, and creates it if it does not exist.
func NewLogs(dir string, cfg Config) (*Logs, error) { return newLogs(dir, defaultLimits, cfg) }

func newLogs(dir string, limits limits, cfg Config) (*Logs, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("open logs: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open logs: %w", err)
	}
	l := &Logs{
		root: root, limits: limits, logger: cmp.Or(cfg.Logger, slog.Default()), write: (*os.File).Write,
		packs: map[place]*pack{}, skips: skips{},
	}
	if err := l.load(); err != nil {
		return nil, errors.Join(fmt.Errorf("open logs: %w", err), l.Close())
	}
	return l, nil
}

// Close closes the directory. The next start continues segments that are not full.
func (l *Logs) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.files {
		_ = s.file.Close()
		s.file = nil
	}
	l.files = nil
	return l.root.Close()
}

// Append can have written some of the chunks when it returns an error. The caller can send all of them again.
func (l *Logs) Append(ctx context.Context, chunks []carillon.Chunk) error {
	places := make([]place, len(chunks))
	for i := range chunks {
		c := &chunks[i]
		p, err := placeOf(c.Namespace, c.Run, c.Keep)
		if err != nil {
			return fmt.Errorf("append to log: %w", err)
		}
		places[i] = p
	}
	var batches []*batch // one for each place, so they are few
	for i := range chunks {
		at := slices.IndexFunc(batches, func(b *batch) bool { return b.place == places[i] })
		if at < 0 {
			at = len(batches)
			batches = append(batches, &batch{place: places[i]})
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := l.gather(batches[at], &chunks[i]); err != nil {
			return err
		}
	}
	for _, b := range batches {
		if err := l.flush(b); err != nil {
			return err
		}
	}
	return nil
}

// batch is the content of one write to a segment.
type batch struct {
	place
	text    []byte
	extents []extent // counted from the beginning of the batch
	keep    carillon.Duration
}

// lineHead is about how many bytes a line has besides its text.
const lineHead = 64

// largeBatch is the size at which a batch is written before it is complete, so that a large chunk is not in
// memory twice.
const largeBatch = 1 << 20

func (l *Logs) gather(b *batch, c *carillon.Chunk) error {
	run, size := runText(c.Run), 0
	for i := range c.Lines {
		size += len(c.Lines[i].Text) + lineHead
	}
	b.text = slices.Grow(b.text, min(size, largeBatch))
	for i := range c.Lines {
		e := extent{
			run: c.Run, first: c.Offset + int64(i), attempt: c.Attempt, lines: 1, at: uint32(len(b.text)),
		}
		b.text = appendRecord(b.text, run, e.begin(), &c.Lines[i])
		e.size = uint32(len(b.text)) - e.at
		if n := len(b.extents); n == 0 || !b.extents[n-1].join(e) {
			b.extents = append(b.extents, e)
		}
		b.keep = max(b.keep, carillon.Duration(c.Keep))
		if len(b.text) >= largeBatch {
			if err := l.flush(b); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *Logs) flush(b *batch) error {
	if len(b.text) == 0 {
		return nil
	}
	l.mu.Lock()
	err := l.append(b)
	full := l.takeFull()
	l.mu.Unlock()
	// The caller whose lines filled the segments spends the time to seal them. After a failure Trim tries
	// again, and reports it.
	_ = l.seal(full)
	if err != nil {
		return fmt.Errorf("append to log of %s: %w", b.extents[0].run, err)
	}
	b.text, b.extents, b.keep = b.text[:0], b.extents[:0], 0
	return nil
}

// append writes a batch to the open segment of its place. If it fails, the segment is as it was before.
func (l *Logs) append(b *batch) error {
	if l.held > 4*l.limits.held {
		return errors.New("too much is in memory, because indexes cannot be written")
	}
	now := carillon.Now()
	s, err := l.openFor(b.place, int64(len(b.text)), now)
	if err != nil {
		return err
	}
	if _, err := l.write(s.file, b.text); err != nil {
		if s.file.Truncate(s.size) != nil {
			l.fill(s) // whatever follows its last line is never read
		}
		return err
	}
	for _, e := range b.extents {
		e.at += uint32(s.size)
		more := s.add(e)
		l.held += more
		l.gathered += more
	}
	s.size += int64(len(b.text))
	s.wrote(now, b.keep.Std())
	if s.size >= l.limits.size || len(s.held) >= l.limits.extents {
		l.fill(s)
	}
	l.fillLargest()
	return nil
}
