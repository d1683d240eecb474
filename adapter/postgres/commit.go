package postgres

import (
	"context"
	"fmt"

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
const maxTries = 100

// commit writes changes no two of which name the same row. It trusts that all of them stand. Where one does not, the
// database has undone everything: then it is seen which ones lost, and the others are written, unless somebody has got in
// between again. A change whose rows are not as it was decided on has lost at that moment, whatever they become.
func (s *Store) commit(ctx context.Context, f *flush, changes []carillon.Change) (gone []int, err error) {
	err = s.with(ctx, s.writers, func(ctx context.Context, c *conn) error {
		err := f.write(ctx, c, changes, nil)
		for try := 0; again(err) && try < maxTries; try++ {
			if gone, err = losers(ctx, c, changes); err == nil {
				err = f.write(ctx, c, changes, gone)
			}
		}
		return err
	})
	return gone, err
}

// write writes the changes but for those that are lost, as one transaction and in one round trip.
func (f *flush) write(ctx context.Context, c *conn, changes []carillon.Change, lost []int) error {
	if err := f.gather(changes, lost); err != nil {
		return err
	}
	batch := f.batch()
	if len(batch) == 0 {
		return nil
	}
	return c.do(ctx, transaction{}, batch...)
}

// again says that it was not an outage: a row was not as expected, two transactions stood in each other's way, or the day of
// a record was made.
func again(err error) bool {
	switch code(err) {
	case "22012", "40001", deadlock: // division by zero, serialization failure
		return true
	case uniqueViolation, checkViolation:
		return true
	}
	return false
}
