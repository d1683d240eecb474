package disk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"github.com/carillon-run/carillon"
)

// defaultLimit is what a query without a limit gets: a log can be larger than memory.
const defaultLimit = 1000

func (l *Logs) Read(ctx context.Context, q carillon.LogQuery) ([]carillon.Line, error) {
	p, err := placeOf(q.Namespace, q.Run, 0)
	if err != nil {
		return nil, fmt.Errorf("read log: %w", err)
	}
	lines, err := l.read(ctx, p, q)
	if err != nil {
		return nil, fmt.Errorf("read log of %s: %w", q.Run, err)
	}
	return lines, nil
}

func (l *Logs) read(ctx context.Context, p place, q carillon.LogQuery) ([]carillon.Line, error) {
	classes, err := l.names(p.namespace)
	if err != nil {
		return nil, err
	}
	after := position{q.AfterAttempt, q.AfterOffset}
	var m merge
	for _, p.class = range classes {
		if _, ok := keepOf(p.class, 0); !ok {
			continue
		}
		f, stretches, err := l.open(ctx, fileKey{p, q.Run})
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		defer f.Close()
		m.add(f, stretches, after)
	}
	slices.SortStableFunc(m.later, func(a, b *cursor) int { return a.first.compare(b.first) })
	return m.lines(after, cmp.Or(q.Limit, defaultLimit))
}

// open opens a log and says what is in it.
func (l *Logs) open(ctx context.Context, key fileKey) (f *os.File, stretches []stretch, err error) {
	err = l.days.in(key.place, false, func(day *os.Root) (err error) {
		f, err = day.Open(fileName(key.run))
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	x := l.indexes.find(key)
	stretches, err = x.update(ctx, f)
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	l.indexes.weigh(key, x, stretches)
	return f, stretches, nil
}

// names lists a small directory. What is not there, or is a file that somebody has put there, is empty.
func (l *Logs) names(dir string) ([]string, error) {
	f, err := l.root.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.IsDir() {
		return nil, err
	}
	names, err := f.Readdirnames(-1)
	slices.Sort(names)
	return names, err
}

// merge reads stretches as one log. It opens each only when its turn comes, so it holds as many as overlap.
type merge struct {
	later []*cursor // by first
	open  []*cursor
}

type cursor struct {
	stretch
	file  io.ReaderAt
	src   *reader
	ahead record // the line at hand, once src is there
}

func (m *merge) add(f *os.File, stretches []stretch, after position) {
	for _, s := range stretches {
		if after.less(s.last) {
			m.later = append(m.later, &cursor{stretch: s, file: f})
		}
	}
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

// next returns the stretch that has the first line after a position.
func (m *merge) next(after position) (least *cursor, err error) {
	consider := func(c *cursor) (more bool) {
		more, e := c.advance(after)
		if more && (least == nil || c.ahead.less(least.ahead.position)) {
			least = c
		}
		err = cmp.Or(err, e)
		return more
	}
	m.open = slices.DeleteFunc(m.open, func(c *cursor) bool { return !consider(c) })
	for len(m.later) > 0 && (least == nil || !least.ahead.less(m.later[0].first)) {
		if c := m.later[0]; consider(c) {
			m.open = append(m.open, c)
		}
		m.later = m.later[1:]
	}
	return least, err
}

// advance reads on to the first line after a position; what it has at hand may be that already.
func (c *cursor) advance(after position) (more bool, err error) {
	if c.src == nil {
		c.src = newReader(c.file, c.from(after), c.end)
	} else if after.less(c.ahead.position) {
		return true, nil
	}
	for {
		rec, _, err := c.src.read()
		if errors.Is(err, io.EOF) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if after.less(rec.position) {
			c.ahead = rec
			return true, nil
		}
	}
}
