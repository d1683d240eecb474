package mem

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/carillon-run/carillon"
)

// Logs keeps the output of runs for as long as the process lives.
type Logs struct {
	mu   sync.Mutex
	runs map[logKey][]kept // in the order printed
}

type logKey struct {
	namespace string
	run       carillon.RunID
}

type kept struct {
	carillon.Line
	written carillon.Time
	keep    time.Duration
}

// NewLogs returns an empty log store.
func NewLogs() *Logs { return &Logs{runs: map[logKey][]kept{}} }

// defaultLimit is the limit of a query that sets none: a log can be larger than memory.
const defaultLimit = 1000

func (l *Logs) Append(_ context.Context, chunks []carillon.Chunk) error {
	now := carillon.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range chunks {
		key := logKey{c.Namespace, c.Run}
		for i, line := range c.Lines {
			line.Attempt, line.Offset = c.Attempt, c.Offset+int64(i)
			at, known := slices.BinarySearchFunc(l.runs[key], line, func(k kept, line carillon.Line) int {
				return cmp.Or(cmp.Compare(k.Attempt, line.Attempt), cmp.Compare(k.Offset, line.Offset))
			})
			if !known {
				l.runs[key] = slices.Insert(l.runs[key], at, kept{line, now, c.Keep})
			}
		}
	}
	return nil
}

func (l *Logs) Read(_ context.Context, q carillon.LogQuery) ([]carillon.Line, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.runs[logKey{q.Namespace, q.Run}]
	from, _ := slices.BinarySearchFunc(all, q, func(k kept, q carillon.LogQuery) int {
		if c := cmp.Or(cmp.Compare(k.Attempt, q.AfterAttempt), cmp.Compare(k.Offset, q.AfterOffset)); c != 0 {
			return c
		}
		return -1 // the position itself is left out
	})
	var lines []carillon.Line
	for _, k := range all[from:] {
		if len(lines) == cmp.Or(q.Limit, defaultLimit) {
			break
		}
		lines = append(lines, k.Line)
	}
	return lines, nil
}

func (l *Logs) Trim(_ context.Context, now carillon.Time, keep time.Duration) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, lines := range l.runs {
		lines = slices.DeleteFunc(lines, func(k kept) bool {
			return k.written.Add(cmp.Or(k.keep, keep)) < now
		})
		if len(lines) == 0 {
			delete(l.runs, key)
		} else {
			l.runs[key] = lines
		}
	}
	return nil
}
