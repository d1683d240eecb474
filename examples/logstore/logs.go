package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/carillon-run/carillon"
)

// Logs is a carillon.LogStore: it keeps the output of each run in a file of JSON lines, dir/NAMESPACE/RUN.
// A line that is appended twice is twice in the file, and Read returns it once.
type Logs struct {
	dir string
	mu  sync.Mutex
}

var _ carillon.LogStore = (*Logs)(nil)

// kept is one line of a file. The text is bytes, because a command can print bytes that are no UTF-8, which a
// JSON string cannot hold.
type kept struct {
	Attempt int32         `json:"attempt"`
	Offset  int64         `json:"offset"`
	At      carillon.Time `json:"at"`
	Stream  string        `json:"stream"`
	Text    []byte        `json:"text"`
	Written carillon.Time `json:"written"`
	Keep    time.Duration `json:"keep,omitempty"`
}

func NewLogs(dir string) *Logs { return &Logs{dir: dir} }

// path returns the file of a run. The namespace is escaped, and has a prefix because ".." is a name too.
func (l *Logs) path(namespace string, run carillon.RunID) string {
	return filepath.Join(l.dir, "namespace."+url.PathEscape(namespace), run.String())
}

// Append implements carillon.LogStore.
func (l *Logs) Append(_ context.Context, chunks []carillon.Chunk) error {
	now := carillon.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range chunks {
		var lines []kept
		for i, line := range c.Lines {
			lines = append(lines, kept{
				c.Attempt, c.Offset + int64(i), line.At, line.Stream, []byte(line.Text), now, c.Keep,
			})
		}
		if err := write(l.path(c.Namespace, c.Run), os.O_APPEND, lines); err != nil {
			return err
		}
	}
	return nil
}

// Read implements carillon.LogStore.
func (l *Logs) Read(_ context.Context, q carillon.LogQuery) (lines []carillon.Line, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	all, err := read(l.path(q.Namespace, q.Run))
	if err != nil {
		return nil, err
	}
	order := func(a, b kept) int {
		return cmp.Or(cmp.Compare(a.Attempt, b.Attempt), cmp.Compare(a.Offset, b.Offset))
	}
	slices.SortStableFunc(all, order)
	all = slices.CompactFunc(all, func(a, b kept) bool { return order(a, b) == 0 })
	for _, k := range all {
		if order(k, kept{Attempt: q.AfterAttempt, Offset: q.AfterOffset}) > 0 {
			lines = append(lines, carillon.Line{
				At: k.At, Stream: k.Stream, Text: string(k.Text), Attempt: k.Attempt, Offset: k.Offset,
			})
		}
	}
	return lines[:min(len(lines), cmp.Or(q.Limit, carillon.DefaultLimit))], nil
}

// Trim implements carillon.LogStore.
func (l *Logs) Trim(_ context.Context, now carillon.Time, keep time.Duration) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	files, err := filepath.Glob(filepath.Join(l.dir, "*", "*"))
	if err != nil {
		return err
	}
	for _, path := range files {
		lines, err := read(path)
		if err != nil {
			return err
		}
		before := len(lines)
		lines = slices.DeleteFunc(lines, func(k kept) bool {
			return k.Written.Add(cmp.Or(k.Keep, keep)) < now
		})
		switch len(lines) {
		case before:
		case 0:
			err = os.Remove(path)
		default:
			err = write(path, os.O_TRUNC, lines)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func write(path string, how int, lines []kept) error {
	var b bytes.Buffer
	for _, k := range lines {
		if err := json.NewEncoder(&b).Encode(k); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|how, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b.Bytes())
	return errors.Join(err, f.Close())
}

func read(path string) (lines []kept, err error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for text := range bytes.Lines(b) {
		var k kept
		if err := json.Unmarshal(text, &k); err == nil { // half a line is what a crash leaves
			lines = append(lines, k)
		}
	}
	return lines, err
}
