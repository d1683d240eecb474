package disk

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"unicode/utf8"

	"github.com/carillon-run/carillon"
)

// Search reads the segments themselves, those with the latest due times first, each from end to end. It ends
// when no other segment can have a line of a later day than the lines found. Within a day hits are in no
// order.
func (l *Logs) Search(ctx context.Context, q carillon.LogSearch) ([]carillon.Hit, error) {
	if err := checkNamespace(q.Namespace); err != nil {
		return nil, fmt.Errorf("search logs: %w", err)
	}
	s := search{
		text: bytes.ToLower([]byte(q.Text)), limit: cmp.Or(q.Limit, defaultLimit), seen: map[seen]bool{},
	}
	segments := l.newestFirst(q.Namespace)
	for i, part := range segments {
		if err := s.segment(ctx, l, part); err != nil {
			return nil, fmt.Errorf("search logs in %s: %w", part.name, err)
		}
		if i+1 < len(segments) && s.enough(dayOf(segments[i+1].latest)) {
			break
		}
	}
	s.cut()
	return s.hits, nil
}

// part is a segment up to where it was written when the search began.
type part struct {
	name   string
	size   int64
	latest carillon.Time
}

func (l *Logs) newestFirst(namespace string) (parts []part) {
	l.mu.Lock()
	for p, k := range l.packs {
		for _, s := range k.segments {
			if p.namespace == namespace && s.size > 0 {
				parts = append(parts, part{s.name(logSuffix), s.size, s.due.max})
			}
		}
	}
	l.mu.Unlock()
	slices.SortFunc(parts, func(a, b part) int {
		return cmp.Or(cmp.Compare(b.latest, a.latest), cmp.Compare(b.name, a.name))
	})
	return parts
}

func dayOf(t carillon.Time) int64 { return int64(t) / day.Milliseconds() }

type search struct {
	text  []byte // in lower case
	limit int
	hits  []carillon.Hit
	seen  map[seen]bool // of hits only: a line that was sent twice is found once
	lower []byte
}

type seen struct {
	run carillon.RunID
	position
}

func (s *search) segment(ctx context.Context, l *Logs, part part) error {
	f, err := l.root.Open(part.name)
	if err != nil {
		return ifThere(err)
	}
	defer f.Close()
	r := newReader(f, part.size)
	for n := 0; ; n++ {
		line, _, err := r.line()
		if err == nil && n%1024 == 0 {
			err = ctx.Err()
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if len(line) > runWidth && s.contains(textOf(line[runWidth:])) {
			s.hit(line)
		}
	}
}

// textOf returns the text that comes after attempt, offset, time and stream.
func textOf(rest []byte) []byte {
	for range 4 {
		space := bytes.IndexByte(rest, ' ')
		if space < 0 {
			return nil
		}
		rest = rest[space+1:]
	}
	return rest
}

// hit takes a line that has the text, if it is a valid line.
func (s *search) hit(line []byte) {
	run, rest, ok := splitRun(line)
	if !ok {
		return
	}
	rec, ok := parse(rest)
	if !ok || s.seen[seen{run, rec.position}] {
		return
	}
	s.seen[seen{run, rec.position}] = true
	s.hits = append(s.hits, carillon.Hit{Run: run, Line: rec.line()})
	if len(s.hits) >= 4*s.limit {
		s.cut()
	}
}

// cut keeps as many hits as the caller wants, those of the latest days.
func (s *search) cut() {
	slices.SortStableFunc(s.hits, func(a, b carillon.Hit) int {
		return cmp.Compare(dayOf(b.Run.Due), dayOf(a.Run.Due))
	})
	for _, hit := range s.hits[min(s.limit, len(s.hits)):] {
		delete(s.seen, seen{hit.Run, position{hit.Attempt, hit.Offset}})
	}
	s.hits = s.hits[:min(s.limit, len(s.hits))]
}

// enough says that the search needs no lines of the given day or before any more.
func (s *search) enough(day int64) bool {
	s.cut()
	return len(s.hits) == s.limit && dayOf(s.hits[s.limit-1].Run.Due) >= day
}

// contains says whether a text contains the wanted one, without regard to case.
func (s *search) contains(escaped []byte) bool {
	s.lower = s.lower[:0]
	if bytes.IndexByte(escaped, '\\') >= 0 {
		s.lower, _ = appendPlain(s.lower, escaped)
	} else {
		s.lower = append(s.lower, escaped...)
	}
	for i, c := range s.lower {
		if c >= utf8.RuneSelf {
			return bytes.Contains(bytes.ToLower(s.lower), s.text)
		}
		if 'A' <= c && c <= 'Z' {
			s.lower[i] = c + 'a' - 'A'
		}
	}
	return bytes.Contains(s.lower, s.text)
}
