package disk

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/carillon-run/carillon"
)

// defaultLimit is the limit of a query that sets none: a log can be larger than memory.
const defaultLimit = 1000

func (l *Logs) Read(ctx context.Context, q carillon.LogQuery) ([]carillon.Line, error) {
	if _, err := placeOf(q.Namespace, q.Run, 0); err != nil {
		return nil, fmt.Errorf("read log: %w", err)
	}
	after := position{q.AfterAttempt, q.AfterOffset}
	m := merge{logs: l, run: q.Run, text: runText(q.Run)}
	defer m.close()
	if err := m.find(ctx, q.Namespace, after); err != nil {
		return nil, fmt.Errorf("read log of %s: %w", q.Run, err)
	}
	lines, err := m.lines(after, cmp.Or(q.Limit, defaultLimit))
	if err != nil {
		return nil, fmt.Errorf("read log of %s: %w", q.Run, err)
	}
	return lines, nil
}

// merge reads the lines that segments have of a run as one log. Lines that were sent twice are in segments
// twice; merge returns them once.
type merge struct {
	logs    *Logs
	run     carillon.RunID
	text    []byte    // the beginning of the run's lines
	sources []*source // by their next extent
	open    []*cursor

	segment *segment // whose file is open
	file    *os.File
}

// source yields the extents of the run in one segment, in order.
type source struct {
	*segment
	page []extent // the next ones, never empty
	next int      // which extent of a sealed segment comes after the page; 0: none
}

// find looks for the run in all segments that can have it.
func (m *merge) find(ctx context.Context, namespace string, after position) error {
	l := m.logs
	var sealed []*segment
	l.mu.Lock()
	skip := l.skips.of(namespace, m.run, after)
	for p, k := range l.packs {
		if p.namespace != namespace {
			continue
		}
		for _, s := range k.segments {
			switch {
			case !s.due.has(m.run.Due) || skip[s]:
			case s.sealed > 0:
				sealed = append(sealed, s)
			default:
				if page := s.after(m.run, after); len(page) > 0 {
					m.sources = append(m.sources, &source{segment: s, page: page})
				}
			}
		}
	}
	l.mu.Unlock()
	var without []*segment
	for _, s := range sealed {
		if err := ctx.Err(); err != nil {
			return err
		}
		src, err := m.lookUp(s, after)
		if err != nil {
			return err
		}
		if src == nil {
			without = append(without, s)
		} else {
			m.sources = append(m.sources, src)
		}
	}
	slices.SortFunc(m.sources, compareSources)
	l.mu.Lock()
	l.skips.note(namespace, m.run, after, without)
	l.mu.Unlock()
	return nil
}

func compareSources(a, b *source) int { return compareExtents(a.page[0], b.page[0]) }

// lookUp searches the index of a sealed segment. It returns nil if the segment has no line of the run after
// the position.
func (m *merge) lookUp(s *segment, after position) (*source, error) {
	f, err := m.logs.root.Open(s.name(indexSuffix))
	if err != nil {
		return nil, ifThere(err) // removed by Trim
	}
	defer f.Close()
	src := &source{segment: s}
	if src.next, err = findExtents(f, s, m.run, after); err != nil {
		return nil, err
	}
	if more, err := src.read(f, m.run, after); err != nil || !more {
		return nil, err
	}
	return src, nil
}

// read fills the page with extents that reach beyond a position.
func (src *source) read(f *os.File, run carillon.RunID, after position) (more bool, err error) {
	for {
		n := min(indexPage, src.sealed-src.next)
		if n <= 0 {
			return false, nil
		}
		page, err := readExtents(f, src.next, n)
		if err != nil {
			return false, err
		}
		src.next += n
		src.page = slices.DeleteFunc(page, func(e extent) bool {
			return e.run == run && !after.less(e.end())
		})
		if other := slices.IndexFunc(src.page, func(e extent) bool { return e.run != run }); other >= 0 {
			src.page, src.next = src.page[:other], 0
			return len(src.page) > 0, nil
		}
		if len(src.page) > 0 {
			return true, nil
		}
	}
}

// pop takes the next extent of the first source.
func (m *merge) pop(after position) (extent, *segment, error) {
	src := m.sources[0]
	e := src.page[0]
	src.page = src.page[1:]
	m.sources = m.sources[1:]
	if len(src.page) == 0 && src.next > 0 {
		f, err := m.logs.root.Open(src.name(indexSuffix))
		if err == nil {
			_, err = src.read(f, m.run, after)
			_ = f.Close()
		}
		if ifThere(err) != nil {
			return e, nil, err
		}
	}
	if len(src.page) > 0 {
		at, _ := slices.BinarySearchFunc(m.sources, src, compareSources)
		m.sources = slices.Insert(m.sources, at, src)
	}
	return e, src.segment, nil
}

func (m *merge) lines(after position, limit int) (lines []carillon.Line, err error) {
	for len(lines) < limit {
		next, err := m.next(after)
		if err != nil || next == nil {
			return lines, err
		}
		lines = append(lines, next.ahead.line())
		after = next.ahead.position
	}
	return lines, nil
}

// next returns the cursor that has the first line after a position. It opens an extent only if the extent can
// have an earlier line than the open ones, so lines that were sent twice are mostly not read twice.
func (m *merge) next(after position) (least *cursor, err error) {
	consider := func(c *cursor) bool {
		more := c.advance(after)
		if more && (least == nil || c.ahead.less(least.ahead.position)) {
			least = c
		}
		return more
	}
	m.open = slices.DeleteFunc(m.open, func(c *cursor) bool { return !consider(c) })
	following := position{after.attempt, after.offset + 1}
	for len(m.sources) > 0 && (least == nil || least.ahead.position != following) {
		first := &m.sources[0].page[0]
		if least != nil && !first.begin().less(least.ahead.position) {
			break
		}
		e, s, err := m.pop(after)
		if err != nil {
			return nil, err
		}
		if !after.less(e.end()) {
			continue
		}
		c, err := m.load(s, e)
		if err != nil {
			return nil, err
		}
		if consider(c) {
			m.open = append(m.open, c)
		}
	}
	return least, nil
}

// cursor is an extent that is being read.
type cursor struct {
	run   []byte // the beginning of its lines
	rest  []byte
	ahead record // the current line, if any
	any   bool   // there is a current line
}

// load reads an extent. If Trim has removed the segment meanwhile, the cursor is empty.
func (m *merge) load(s *segment, e extent) (*cursor, error) {
	if m.segment != s {
		m.close()
		f, err := m.logs.root.Open(s.name(logSuffix))
		if err != nil {
			return &cursor{}, ifThere(err)
		}
		m.segment, m.file = s, f
	}
	c := &cursor{run: m.text, rest: make([]byte, e.size)}
	n, err := m.file.ReadAt(c.rest, int64(e.at))
	if n < len(c.rest) { // a person cut the file
		c.rest, err = c.rest[:n], nil
	}
	return c, err
}

func (m *merge) close() {
	if m.file != nil {
		_ = m.file.Close()
		m.segment, m.file = nil, nil
	}
}

// advance reads on to the first line after a position; the current line can be that one already.
func (c *cursor) advance(after position) (more bool) {
	if c.any && after.less(c.ahead.position) {
		return true
	}
	for {
		line, rest, ok := bytes.Cut(c.rest, []byte{'\n'})
		if !ok {
			return false
		}
		c.rest = rest
		text, ok := bytes.CutPrefix(line, c.run)
		if !ok {
			continue
		}
		if rec, ok := parse(text); ok && after.less(rec.position) {
			c.ahead, c.any = rec, true
			return true
		}
	}
}
