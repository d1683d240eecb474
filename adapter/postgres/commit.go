package postgres

import (
	"context"
	"fmt"
	"slices"

	"github.com/carillon-run/carillon"
)

// Commit implements carillon.Store. It does not stop half way when ctx ends: the others in the batch would pay for it.
func (s *Store) Commit(ctx context.Context, changes []carillon.Change) (lost []int, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f := s.flushes.Get().(*flush)
	defer s.flushes.Put(f)
	for at := 0; at < len(changes); {
		n := f.span(changes[at:])
		some, err := s.commit(context.WithoutCancel(ctx), f, changes[at:at+n])
		if err != nil {
			return nil, fmt.Errorf("commit: %w", err)
		}
		for _, i := range some {
			lost = append(lost, at+i)
		}
		at += n
	}
	return lost, nil
}

// maxTries is how often a batch is done again because others got in between. Each time somebody got on.
const maxTries = 50

// commit writes changes no two of which name the same row. It trusts that all of them stand; where one does not, the
// database has undone everything, and it is done again with care.
func (s *Store) commit(ctx context.Context, f *flush, changes []carillon.Change) (lost []int, err error) {
	err = s.with(ctx, s.writers, func(ctx context.Context, c *conn) error {
		if err := f.gather(changes, nil); err != nil {
			return err
		}
		err := c.do(ctx, transaction{}, f.batch()...)
		for try := 0; again(err) && try < maxTries; try++ {
			lost, err = f.commitWithCare(ctx, c, changes)
		}
		return err
	})
	return lost, err
}

// again says that it was not an outage: a row was not as expected, or two transactions stood in each other's way.
func again(err error) bool {
	const divisionByZero, uniqueViolation, serializationFailure, deadlock = "22012", "23505", "40001", "40P01"
	return slices.Contains([]string{divisionByZero, uniqueViolation, serializationFailure, deadlock}, code(err))
}

// commitWithCare locks and reads all rows that are compared before it writes those of the changes that stand. What is not
// there cannot be locked: should somebody else insert it meanwhile, the batch fails once more.
func (f *flush) commitWithCare(ctx context.Context, c *conn, changes []carillon.Change) (lost []int, err error) {
	rows := newLocks()
	if err = c.do(ctx, transaction{begin: `BEGIN`}, rows.calls(changes)...); err == nil {
		for i := range changes {
			if !rows.stand(&changes[i]) {
				lost = append(lost, i)
			}
		}
		isLost := func(i int) bool { _, found := slices.BinarySearch(lost, i); return found }
		if err = f.gather(changes, isLost); err == nil {
			err = c.do(ctx, transaction{commit: true}, f.batch()...)
		}
	}
	if err != nil && c.TxStatus() != 'I' && !c.IsClosed() {
		if undone := c.do(ctx, transaction{plain: true}, call{statement: &statement{"", `ROLLBACK`}}); undone != nil {
			return nil, undone
		}
	}
	return lost, err
}
