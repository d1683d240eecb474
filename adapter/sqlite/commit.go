package sqlite

import (
	"context"
	"errors"
	"fmt"

	"github.com/carillon-run/carillon"
	"zombiezen.com/go/sqlite"
)

// Commit implements carillon.Store. It does not stop half way when ctx ends: the other changes of the batch
// would pay for it.
func (s *Store) Commit(ctx context.Context, changes []carillon.Change) (lost []int, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if len(changes) == 0 {
		return nil, nil
	}
	err = s.write(func(w *writer) error {
		lost, err = w.apply(changes)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("commit: %w", err)
	}
	return lost, nil
}

// write runs a function in a transaction of the one writer. After a disk error the content of the disk is
// unknown: the operating system drops a page that it could not write, so a second try would succeed and lose
// the page. So the store then refuses all writes until the file is opened again. A full disk is no such
// error: the transaction is undone, and there may be room later.
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
		s.broken = fmt.Errorf(
			"%w: the store takes no more writes after: %w", carillon.ErrPermanent, errors.Join(err, undone),
		)
		return s.broken
	}
	if sqlite.ErrCode(err).ToPrimary() == sqlite.ResultFull {
		return fmt.Errorf("%w: %w", carillon.ErrFull, err)
	}
	return err
}

// breaks says whether an error means that the disk or the file is damaged.
func breaks(err error) bool {
	switch sqlite.ErrCode(err).ToPrimary() {
	case sqlite.ResultIOErr, sqlite.ResultCorrupt, sqlite.ResultNotADB, sqlite.ResultCantOpen,
		sqlite.ResultNoLFS:
		return true
	}
	return false
}

// errTorn says that part of a change was written before one of its rows turned out to be lost.
var errTorn = errors.New("a change was torn")

// wary is for how many commits changes are written with care after one was torn.
const wary = 16

// apply writes the changes in order and returns the indexes of the lost ones. It assumes that a change whose
// first row is not lost is not lost at all: without this assumption a commit would cost a quarter more. If
// the assumption is wrong, apply undoes everything and writes it again with care. The next commits are
// written with care too, because one loss is often followed by more.
func (w *writer) apply(changes []carillon.Change) (lost []int, err error) {
	if w.wary == 0 {
		lost, err = putAll(changes, w.put)
		if !errors.Is(err, errTorn) {
			return lost, err
		}
		w.wary = wary
		if err := w.again(); err != nil {
			return nil, err
		}
	}
	w.wary--
	return putAll(changes, w.putWithCare)
}

func putAll(changes []carillon.Change, put func([]carillon.Change) (bool, error)) (lost []int, err error) {
	for at := 0; at < len(changes); {
		end := at + carillon.JoinedFrom(changes[at:])
		won, err := put(changes[at:end])
		if err != nil {
			return nil, err
		}
		for ; at < end; at++ {
			if !won {
				lost = append(lost, at)
			}
		}
	}
	return lost, nil
}

// putWithCare writes joined changes so that they can be undone alone.
func (w *writer) putWithCare(joined []carillon.Change) (won bool, err error) {
	if err := w.savepoint.exec(); err != nil {
		return false, err
	}
	won, err = w.put(joined)
	if errors.Is(err, errTorn) {
		won, err = false, w.rollbackTo.exec()
	}
	if err != nil {
		return false, err
	}
	return won, w.release.exec()
}

// put writes joined changes row by row, each row only if it is still as it was when the change was decided.
// false: the first row is not, and nothing was written.
func (w *writer) put(joined []carillon.Change) (won bool, err error) {
	for i := range joined {
		if same, err := w.compare(joined[i].Compared); err != nil || !same {
			return false, err
		}
	}
	p := progress{}
	for i := 0; i < len(joined) && p.on(); i++ {
		w.putRows(&joined[i], &p)
	}
	return p.on(), p.err
}

// putRows writes guards first: a request that is repeated with its idempotency key loses by them, and then no
// row has to be undone.
func (w *writer) putRows(c *carillon.Change, p *progress) {
	for i := 0; i < len(c.Guards) && p.on(); i++ {
		p.note(w.putGuard(&c.Guards[i]))
	}
	if c.Job != nil && p.on() {
		p.note(w.putJob(c.Job))
	}
	for i := 0; i < len(c.Runs) && p.on(); i++ {
		p.note(w.putRun(&c.Runs[i]))
	}
	for i := 0; i < len(c.Retried) && p.on(); i++ {
		p.note(w.removeDead(c.Retried[i]))
	}
}

// progress says how many rows of a change have been written, and whether writing goes on.
type progress struct {
	written int
	lost    bool
	err     error
}

func (p *progress) on() bool { return !p.lost && p.err == nil }

func (p *progress) note(hit bool, err error) {
	switch {
	case err != nil:
		p.err = err
	case hit:
		p.written++
	case p.written > 0:
		p.err = errTorn
	default:
		p.lost = true
	}
}
