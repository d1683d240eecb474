package sqlite

import (
	"context"
	"errors"
	"fmt"

	"github.com/carillon-run/carillon"
	"zombiezen.com/go/sqlite"
)

// Commit implements carillon.Store. It does not stop half way when ctx ends: the others in the batch would pay for it.
func (s *Store) Commit(ctx context.Context, changes []carillon.Change) (lost []int, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if len(changes) == 0 {
		return nil, nil
	}
	err = s.write(func(w *writer) error {
		lost, err = w.apply(changes, false)
		if errors.Is(err, errTorn) {
			if err = w.again(); err == nil {
				lost, err = w.apply(changes, true)
			}
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("commit: %w", err)
	}
	return lost, nil
}

// write runs a function in a transaction of the one writer. After an error of the disk nobody knows what it holds: the
// system forgets a page that it could not write, so a second try would succeed and lose it. Then all writes are refused
// until the file is opened again. A full disk is no such error: the transaction is undone, and there may be room later.
func (s *Store) write(f func(w *writer) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken != nil {
		return s.broken
	}
	err := s.writer.begin.exec()
	if err == nil {
		err = f(s.writer)
		if err == nil {
			err = s.writer.commit.exec()
		}
	}
	if err == nil {
		s.tend()
		return nil
	}
	undone := s.writer.undo()
	if undone != nil || breaks(err) {
		s.broken = fmt.Errorf("the store takes no more writes after: %w", errors.Join(err, undone))
	}
	return err
}

// breaks says that the disk or the file is not what it should be.
func breaks(err error) bool {
	switch sqlite.ErrCode(err).ToPrimary() {
	case sqlite.ResultIOErr, sqlite.ResultCorrupt, sqlite.ResultNotADB, sqlite.ResultCantOpen, sqlite.ResultNoLFS:
		return true
	}
	return false
}

// errTorn says that a change was written in part before one of its rows was seen to be lost.
var errTorn = errors.New("a change was torn")

// apply writes the changes in order and returns the indexes of the lost ones. A change of several rows is compared
// first and written then. A submission is not, unless careful: its job is written first, and when that is new then so
// are its runs; should that not hold, the change is torn and everything is done once more.
func (w *writer) apply(changes []carillon.Change, careful bool) (lost []int, err error) {
	for i := range changes {
		c := &changes[i]
		stands := true
		if careful || needsLook(c) {
			if stands, err = w.stands(c); err != nil {
				return nil, err
			}
		}
		if stands {
			if stands, err = w.put(c); err != nil {
				return nil, err
			}
		}
		if !stands {
			lost = append(lost, i)
		}
	}
	return lost, nil
}

// needsLook says that the first write of the change could succeed and a later one lose.
func needsLook(c *carillon.Change) bool {
	rows := len(c.Runs) + len(c.Guards) + len(c.Redriven)
	if c.Job != nil {
		rows++
	}
	if rows == 1 && len(c.Runs) == 1 { // a record that never waited must not hide a run that does
		return c.Runs[0].Rev == 0 && c.Runs[0].State.Ended()
	}
	return rows > 1 && !submits(c)
}

func submits(c *carillon.Change) bool {
	if c.Job == nil || c.Job.Rev != 0 || len(c.Redriven) > 0 {
		return false
	}
	for i := range c.Runs {
		if c.Runs[i].Rev != 0 || c.Runs[i].State.Ended() {
			return false
		}
	}
	for i := range c.Guards {
		if c.Guards[i].Rev != 0 {
			return false
		}
	}
	return true
}

// put writes a change row by row, each only if it is still as it was decided on. false: the first row is not, and
// nothing was written.
func (w *writer) put(c *carillon.Change) (won bool, err error) {
	written := 0
	note := func(hit bool, err error) error {
		switch {
		case err != nil:
			return err
		case hit:
			written++
			return nil
		case written == 0:
			return errLost
		}
		return errTorn
	}
	err = w.putRows(c, note)
	if errors.Is(err, errLost) {
		return false, nil
	}
	return err == nil, err
}

// errLost stays in this file: to the callers of the store a lost race is a value.
var errLost = errors.New("lost")

func (w *writer) putRows(c *carillon.Change, note func(bool, error) error) error {
	if c.Job != nil {
		if err := note(w.putJob(c.Job)); err != nil {
			return err
		}
	}
	for i := range c.Runs {
		if err := note(w.putRun(&c.Runs[i])); err != nil {
			return err
		}
	}
	for i := range c.Guards {
		if err := note(w.putGuard(&c.Guards[i])); err != nil {
			return err
		}
	}
	for _, id := range c.Redriven {
		if err := note(w.redrive(id)); err != nil {
			return err
		}
	}
	return nil
}
