package disk

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/carillon-run/carillon"
)

// Trim removes the segments whose last line can go. A line goes with its segment, so Trim also seals segments
// that have been open for long: an eighth of the time that they are kept, but between a minute and six hours.
func (l *Logs) Trim(ctx context.Context, now carillon.Time, keep time.Duration) error {
	l.mu.Lock()
	expired := l.age(now, keep)
	full := l.takeFull()
	l.mu.Unlock()
	err := l.seal(full)
	for _, s := range expired {
		e := ctx.Err()
		if e == nil {
			e = l.removeSegment(s)
		}
		l.mu.Lock()
		s.sealing = false
		l.mu.Unlock()
		if e != nil {
			err = errors.Join(err, e)
		}
	}
	if err != nil {
		return fmt.Errorf("trim logs: %w", err)
	}
	return nil
}

// age returns the segments to remove, and fills those to seal.
func (l *Logs) age(now carillon.Time, keep time.Duration) (expired []*segment) {
	for p, k := range l.packs {
		classKeep, _ := keepOf(p.class, keep)
		open := min(max(classKeep/8, time.Minute), 6*time.Hour)
		for _, s := range k.segments {
			there, same := true, true
			if s.sealed == 0 {
				there, same = l.look(s)
			}
			switch {
			case s.sealing:
			case s.gone(keep) < now || !there:
				l.retire(s)
				expired = append(expired, s)
			case s.sealed == 0 && (s != k.open || s.began.Add(open) < now || !same):
				l.fill(s)
			}
		}
	}
	return expired
}

// look says whether a person has removed, cut or edited the file: lines appended to it then could not be
// read.
func (l *Logs) look(s *segment) (there, same bool) {
	info, err := l.root.Lstat(s.name(logSuffix))
	return !errors.Is(err, fs.ErrNotExist), err == nil && info.Size() == s.size
}

// removeSegment removes the lines first: the next start removes an index without lines.
func (l *Logs) removeSegment(s *segment) error {
	if err := l.remove(s.name(logSuffix)); err != nil {
		return err
	}
	if err := l.remove(s.name(indexSuffix)); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.packs[s.place]
	k.segments = slices.DeleteFunc(k.segments, func(other *segment) bool { return other == s })
	if len(k.segments) == 0 {
		delete(l.packs, s.place)
	}
	l.held -= s.drop()
	s.removed = true
	l.skips.forget(s)
	return nil
}
