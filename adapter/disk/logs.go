package disk

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"os"
	"sync"

	"github.com/carillon-run/carillon"
)

// Logs is a carillon.LogStore under one directory. One process at a time writes to it.
type Logs struct {
	root    *os.Root
	days    days
	indexes indexes
	// writing has a lock for every file, shared by some: looking at the last byte and writing after it is one step.
	writing [64]sync.Mutex
	// write is (*os.File).Write, except in tests of a full disk.
	write func(*os.File, []byte) (int, error)
}

// NewLogs opens the directory, and makes it if it is not there.
func NewLogs(dir string) (*Logs, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("open logs: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open logs: %w", err)
	}
	return &Logs{
		root:    root,
		days:    days{root: root, open: map[place]*os.Root{}},
		indexes: indexes{files: map[fileKey]*index{}},
		write:   (*os.File).Write,
	}, nil
}

// Close lets go of the directory.
func (l *Logs) Close() error {
	l.days.close()
	return l.root.Close()
}

// Append has written some of the chunks when it returns an error. The caller may send all of them again.
func (l *Logs) Append(ctx context.Context, chunks []carillon.Chunk) error {
	places := make([]place, len(chunks))
	for i, c := range chunks {
		p, err := placeOf(c.Namespace, c.Run, c.Keep)
		if err != nil {
			return fmt.Errorf("append to log: %w", err)
		}
		places[i] = p
	}
	var b []byte
	for i, c := range chunks {
		if err := ctx.Err(); err != nil {
			return err
		}
		for j := range c.Lines {
			b = appendRecord(b, position{c.Attempt, c.Offset + int64(j)}, &c.Lines[j])
		}
		if i+1 < len(chunks) && chunks[i+1].Run == c.Run && places[i+1] == places[i] {
			continue // one write for all that goes to one file
		}
		if err := l.append(places[i], c.Run, b); err != nil {
			return fmt.Errorf("append to log of %s: %w", c.Run, err)
		}
		b = b[:0]
	}
	return nil
}

func (l *Logs) append(p place, run carillon.RunID, b []byte) error {
	if len(b) == 0 {
		return nil
	}
	lock := l.lock(run)
	lock.Lock()
	defer lock.Unlock()
	return l.days.in(p, true, func(day *os.Root) error {
		f, err := day.OpenFile(fileName(run), os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o640)
		if err != nil {
			return err
		}
		return cmp.Or(l.appendTo(f, b), f.Close())
	})
}

func (l *Logs) appendTo(f *os.File, b []byte) error {
	cut, err := isTorn(f)
	if err != nil {
		return err
	}
	if cut {
		b = append([]byte(torn), b...)
	}
	_, err = l.write(f, b)
	return err
}

func (l *Logs) lock(run carillon.RunID) *sync.Mutex {
	return &l.writing[(uint64(run.Job)*31+uint64(run.Due))%uint64(len(l.writing))]
}

// isTorn says that the file's last line has no end.
func isTorn(f *os.File) (bool, error) {
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return false, err
	}
	if !info.Mode().IsRegular() {
		return false, &fs.PathError{Op: "append", Path: f.Name(), Err: fs.ErrInvalid}
	}
	var last [1]byte
	_, err = f.ReadAt(last[:], info.Size()-1)
	return last[0] != '\n', err
}
