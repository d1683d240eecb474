package postgres

import (
	"context"
	"fmt"

	"github.com/carillon-run/carillon"
)

// Commit implements carillon.Store. It does not stop half way when ctx ends, because that would hurt the
// other callers in the batch.
func (s *Store) Commit(ctx context.Context, changes []carillon.Change) (lost []int, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f := s.batches.Get().(*batch)
	defer s.batches.Put(f)
	for at := 0; at < len(changes); {
		n := f.group(changes[at:])
		some, err := s.commit(context.WithoutCancel(ctx), f, changes[at:at+n])
		if err != nil {
			return nil, fmt.Errorf("commit: %w", named(err))
		}
		for _, i := range some {
			lost = append(lost, at+i)
		}
		at += n
	}
	return lost, nil
}

const diskFull = "53100"

// named marks an error that says that the disk is full.
func named(err error) error {
	if code(err) == diskFull {
		return fmt.Errorf("%w: %w", carillon.ErrFull, err)
	}
	return err
}

// maxTries is how often a batch is tried again because other writers were quicker. Each time another writer
// made progress.
const maxTries = 100

// commit writes changes of which no two name the same row. It first assumes that all of them stand. If one
// does not, the database undoes the whole batch; commit then finds out which changes lost and writes the
// others. It repeats this if another writer was quicker again. A change whose rows are not as it was decided
// on has lost at that moment, even if the rows change back later.
func (s *Store) commit(ctx context.Context, f *batch, changes []carillon.Change) (gone []int, err error) {
	err = s.with(ctx, s.writers, func(ctx context.Context, c *conn) error {
		err := f.write(ctx, c, changes, nil)
		for try := 0; again(err) && try < maxTries; try++ {
			if gone, err = compare(ctx, c, changes); err == nil {
				err = f.write(ctx, c, changes, gone)
			}
		}
		return err
	})
	return gone, err
}

// write writes the changes except the lost ones, as one transaction and in one round trip.
func (f *batch) write(ctx context.Context, c *conn, changes []carillon.Change, lost []int) error {
	if err := f.gather(changes, lost); err != nil {
		return err
	}
	batch := f.toCalls()
	if len(batch) == 0 {
		return nil
	}
	return c.do(ctx, transaction{}, batch...)
}

// again says that the error is not an outage: a row was not as expected, two transactions blocked each other,
// or the partition for the day of a record was created meanwhile.
func again(err error) bool {
	switch code(err) {
	case "22012", "40001", deadlock: // division by zero, serialization failure
		return true
	case uniqueViolation, checkViolation:
		return true
	}
	return false
}
