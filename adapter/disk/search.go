package disk

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/carillon-run/carillon"
)

// Search reads the files themselves, day by day from the newest; within a day in no order, because a day may have more
// files than there is memory to sort them.
func (l *Logs) Search(ctx context.Context, q carillon.LogSearch) ([]carillon.Hit, error) {
	if err := checkNamespace(q.Namespace); err != nil {
		return nil, fmt.Errorf("search logs: %w", err)
	}
	places, err := l.places(q.Namespace)
	if err != nil {
		return nil, fmt.Errorf("search logs: %w", err)
	}
	slices.SortStableFunc(places, func(a, b place) int { return cmp.Compare(b.day, a.day) })
	s := search{
		text:  bytes.ToLower([]byte(q.Text)),
		limit: cmp.Or(q.Limit, defaultLimit),
		seen:  map[seen]bool{},
		src:   newReader(nil, 0, 0),
	}
	for _, p := range places {
		err := l.eachLog(ctx, p, func(day *os.Root, name string, run carillon.RunID) error {
			return s.file(ctx, day, name, run)
		})
		if errors.Is(err, errEnough) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("search logs of %s: %w", p.day, err)
		}
	}
	return s.hits, nil
}

// places are the days of a namespace, of all classes.
func (l *Logs) places(namespace string) (places []place, err error) {
	classes, err := l.names(namespace)
	if err != nil {
		return nil, err
	}
	for _, class := range classes {
		if _, ok := keepOf(class, 0); !ok {
			continue
		}
		days, err := l.names(namespace + "/" + class)
		if err != nil {
			return nil, err
		}
		for _, day := range days {
			if _, err := time.Parse(dayLayout, day); err == nil {
				places = append(places, place{namespace, class, day})
			}
		}
	}
	return places, nil
}

// eachLog calls f for every log of a day. It lists some at a time: a day may have millions.
func (l *Logs) eachLog(ctx context.Context, p place, f func(day *os.Root, name string, run carillon.RunID) error) error {
	day, err := l.root.OpenRoot(p.path())
	if errors.Is(err, fs.ErrNotExist) {
		return nil // removed by Trim
	}
	if err != nil {
		return err
	}
	defer day.Close()
	list, err := day.Open(".")
	if err != nil {
		return err
	}
	defer list.Close()
	for {
		names, err := list.Readdirnames(256)
		for _, name := range names {
			run, ok := runOf(name)
			if !ok {
				continue
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := f(day, name, run); err != nil {
				return err
			}
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
	}
}

type search struct {
	text  []byte // in lower case
	limit int
	hits  []carillon.Hit
	seen  map[seen]bool // of hits only: what was sent twice is found once
	src   *reader
	lower []byte
}

type seen struct {
	run carillon.RunID
	position
}

// errEnough ends a search that has found as much as was asked for.
var errEnough = errors.New("enough")

func (s *search) file(ctx context.Context, day *os.Root, name string, run carillon.RunID) error {
	f, err := day.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	s.src.reset(f, 0, math.MaxInt64)
	for n := 1; ; n++ {
		rec, _, err := s.src.read()
		if err == nil && n%1024 == 0 {
			err = ctx.Err()
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if s.contains(rec.text) && !s.seen[seen{run, rec.position}] {
			s.seen[seen{run, rec.position}] = true
			s.hits = append(s.hits, carillon.Hit{Run: run, Line: rec.line()})
			if len(s.hits) == s.limit {
				return errEnough
			}
		}
	}
}

// contains compares without regard to case.
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
