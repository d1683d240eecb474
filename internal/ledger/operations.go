package ledger

import (
	"context"
	"errors"
	"fmt"

	"github.com/carillon-run/carillon"
)

// StartOperation stores an operation that the caller has admitted, for the nodes to perform. It fills in the
// rest of op before it makes the answer of an idempotency key.
func (l *Ledger) StartOperation(ctx context.Context, op *carillon.Operation) error {
	return l.Update(ctx, op.Namespace, func(now carillon.Time) (carillon.Change, error) {
		if err := l.roomForOperation(ctx, op.Namespace); err != nil {
			return carillon.Change{}, err
		}
		id, err := l.NextOperation(now)
		if err != nil {
			return carillon.Change{}, err
		}
		op.ID, op.State, op.Created = id, carillon.OperationCounting, now
		return saved(op, carillon.OperationRecord{Operation: *op}, now), nil
	})
}

// NextOperation is an id that no other operation has.
func (l *Ledger) NextOperation(now carillon.Time) (carillon.OperationID, error) {
	id, err := l.cfg.IDs.Next(now)
	return carillon.OperationID(id), err
}

// saved is the change that writes a record; op gets what it then says.
func saved(op *carillon.Operation, record carillon.OperationRecord, now carillon.Time) carillon.Change {
	change := record.Save(now)
	*op = record.Operation
	return change
}

// roomForOperation refuses an operation more if too many are open: a script that begins them in a loop must
// not slow down all others.
func (l *Ledger) roomForOperation(ctx context.Context, namespace string) error {
	guards, err := l.cfg.Store.Guards(ctx, carillon.OpenOperationQuery())
	if err != nil {
		return err
	}
	open := 0
	for i := range guards {
		if of, _, err := carillon.OpenOperationOf(&guards[i]); err == nil && of == namespace {
			open++
		}
	}
	if open >= carillon.MaxOpenOperations {
		return fmt.Errorf(
			"%w: %d operations of the namespace are open, the most there can be; wait until some have "+
				"ended, or cancel some", carillon.ErrConflict, open,
		)
	}
	return nil
}

// CancelOperation ends an operation that is not a release; op says which one by its namespace and id, and
// gets the rest. What it has done stays. The node that performs it notices within a second. To cancel it
// again changes nothing.
func (l *Ledger) CancelOperation(ctx context.Context, op *carillon.Operation) error {
	namespace, id := op.Namespace, op.ID
	err := l.Update(ctx, namespace, func(now carillon.Time) (c carillon.Change, err error) {
		record, err := l.Operation(ctx, namespace, id)
		if err != nil {
			return c, err
		}
		*op = record.Operation
		switch op.State {
		case carillon.OperationCanceled:
			return c, errCanceledBefore
		case carillon.OperationDone, carillon.OperationFailed:
			return c, fmt.Errorf("%w: %s is %s", carillon.ErrConflict, id, op.State)
		}
		if op.Kind == carillon.OperationRelease {
			return c, fmt.Errorf("%w: only its gate ends the release %s", carillon.ErrInvalid, id)
		}
		record.State = carillon.OperationCanceled
		return saved(op, record, now), nil
	})
	if errors.Is(err, errCanceledBefore) {
		return l.Used(ctx, namespace) // a repeated request gets its own answer: the last turn may count since
	}
	return err
}

var errCanceledBefore = errors.New("the operation was canceled before")

// Operation reads the record of an operation.
func (l *Ledger) Operation(
	ctx context.Context, namespace string, id carillon.OperationID,
) (carillon.OperationRecord, error) {
	guards, err := l.cfg.Store.Guards(ctx, carillon.GuardQuery{
		Namespace: namespace, Keys: []string{id.Key()},
	})
	if err != nil {
		return carillon.OperationRecord{}, err
	}
	if len(guards) == 0 {
		return carillon.OperationRecord{}, fmt.Errorf(
			"%w: there is no operation %s", carillon.ErrNotFound, id,
		)
	}
	return carillon.OperationOf(&guards[0])
}

// SaveOperation writes a record, and says whether it won: if it did not, another node went on with the
// operation, or the operation was canceled.
func (l *Ledger) SaveOperation(ctx context.Context, r *carillon.OperationRecord) (won bool, err error) {
	lost, err := l.Commit(ctx, []carillon.Change{r.Save(l.cfg.Clock.Now())})
	if err != nil || len(lost) > 0 {
		return false, err
	}
	r.Rev++
	return true, nil
}
