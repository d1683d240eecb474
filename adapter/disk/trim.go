package disk

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/carillon-run/carillon"
)

// Trim removes the logs to which nothing was added for as long as they are kept, then the days that are empty.
func (l *Logs) Trim(ctx context.Context, now carillon.Time, keep time.Duration) error {
	namespaces, err := l.names(".")
	if err != nil {
		return fmt.Errorf("trim logs: %w", err)
	}
	for _, namespace := range namespaces {
		if checkNamespace(namespace) != nil {
			continue
		}
		places, err := l.places(namespace)
		if err != nil {
			return fmt.Errorf("trim logs: %w", err)
		}
		for _, p := range places {
			if err := l.trimDay(ctx, p, now, keep); err != nil {
				return fmt.Errorf("trim logs of %s: %w", p.path(), err)
			}
		}
	}
	return nil
}

func (l *Logs) trimDay(ctx context.Context, p place, now carillon.Time, keep time.Duration) error {
	keep, _ = keepOf(p.class, keep)
	day, err := time.Parse(dayLayout, p.day)
	if err != nil {
		return err
	}
	before := now.Std().Add(-keep)
	if !day.Before(before) {
		return nil // no run prints before it is due, so nothing here is old enough: spare the listing
	}
	err = l.eachLog(ctx, p, func(day *os.Root, name string, run carillon.RunID) error {
		return l.trimFile(day, name, run, before)
	})
	if err != nil {
		return err
	}
	// "It exists" is what Go calls a directory that is not empty.
	if err := l.root.Remove(p.path()); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// trimFile looks and removes under the lock of the file's writers, or a line could be written to a file without a name.
func (l *Logs) trimFile(day *os.Root, name string, run carillon.RunID, before time.Time) error {
	lock := l.lock(run)
	lock.Lock()
	defer lock.Unlock()
	info, err := day.Lstat(name)
	if err == nil && info.ModTime().Before(before) {
		err = day.Remove(name)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
