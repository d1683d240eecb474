package mysql

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/carillon-run/carillon"
)

// How much a search reads before it gives up, in bytes of text: a second or two of work. A piece takes as
// long as another pieceCost bytes, however small it is.
const (
	maxSearched = 256 << 20
	pieceCost   = 1 << 10
)

// Search unpacks and reads the pieces day by day from the newest, and within a day run by run from the latest
// due time. After maxSearched bytes it returns what it has found so far.
func (logs *Logs) Search(ctx context.Context, q carillon.LogSearch) ([]carillon.Hit, error) {
	s := search{
		press: &logs.press, namespace: q.Namespace, text: bytes.ToLower([]byte(q.Text)),
		limit: q.Limit, budget: logs.maxSearched, seen: map[seenLine]bool{},
	}
	if s.limit <= 0 {
		s.limit = defaultLines
	}
	err := logs.store.use(ctx, func(l *conn) error {
		days, err := l.logDays()
		if err != nil {
			return err
		}
		for _, d := range slices.Backward(days) {
			if err := s.day(l, d); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("search logs: %w", err)
	}
	slices.SortFunc(s.hits, func(a, b carillon.Hit) int {
		return cmp.Or(
			cmp.Compare(b.Run.Due, a.Run.Due), cmp.Compare(b.Run.Job, a.Run.Job),
			cmp.Compare(a.Attempt, b.Attempt), cmp.Compare(a.Offset, b.Offset))
	})
	return s.hits, nil
}

type search struct {
	press     *press
	namespace string
	text      []byte // in lower case
	limit     int
	budget    int
	hits      []carillon.Hit
	seen      map[seenLine]bool // of hits only: pieces can overlap
}

type seenLine struct {
	run carillon.RunID
	position
}

func (s *search) enough() bool { return len(s.hits) >= s.limit || s.budget <= 0 }

// In: namespace; the least due time; due, job, attempt and first line before which to go on; how many. A
// range of the primary key, backwards, in one partition.
const searchPieces = `SELECT due, job, attempt, first, log.lines, body FROM log
WHERE ns = ? AND due >= ? AND (due < ?
	OR due = ? AND job < ?
	OR due = ? AND job = ? AND attempt < ?
	OR due = ? AND job = ? AND attempt = ? AND first < ?)
ORDER BY due DESC, job DESC, attempt DESC, first DESC LIMIT ?`

// day searches the pieces of one partition.
func (s *search) day(l *conn, d logDay) error {
	at := piece{run: carillon.RunID{Due: d.to, Job: math.MinInt64}}
	take := func(r row) error {
		at = piece{
			run:     carillon.RunID{Due: carillon.Time(r.int(0)), Job: carillon.JobID(r.int(1))},
			attempt: int32(r.int(2)), offset: r.int(3),
		}
		return s.piece(&at, r.bytes(5), int(r.int(4)))
	}
	for n := somePieces; n == somePieces && !s.enough(); {
		n = 0
		due, job := at.run.Due, at.run.Job
		err := l.query(func(r row) error { n++; return take(r) }, searchPieces,
			s.namespace, d.from, due, due, job, due, job, at.attempt, due, job, at.attempt, at.offset,
			somePieces)
		if err != nil {
			return err
		}
	}
	return nil
}

// piece looks at single lines only if the text occurs in all of them together.
func (s *search) piece(p *piece, body []byte, count int) error {
	if s.enough() {
		return nil
	}
	o, err := s.press.open(body, count)
	s.budget -= len(o.texts) + pieceCost
	if err != nil || !bytes.Contains(bytes.ToLower(o.texts), s.text) {
		return err
	}
	for i, line := range o.all() {
		line.Attempt, line.Offset = p.attempt, p.offset+int64(i)
		key := seenLine{p.run, position{line.Attempt, line.Offset}}
		if s.seen[key] || !strings.Contains(strings.ToLower(line.Text), string(s.text)) {
			continue
		}
		s.seen[key] = true
		s.hits = append(s.hits, carillon.Hit{Run: p.run, Line: line})
		if len(s.hits) == s.limit {
			break
		}
	}
	return nil
}
