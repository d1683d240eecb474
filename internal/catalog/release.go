package catalog

import (
	"context"
	"errors"
	"fmt"

	"github.com/carillon-run/carillon"
)

// Opening says who opens a gate, when, and at which rate the held runs leave.
type Opening struct {
	By   string
	Rate carillon.Rate
	At   carillon.Time
}

// OpenGate opens a gate that a caller of Write writes. It adds to beside the operation that the release is. A
// gate that holds no run gets none: if a run comes until all nodes know that the gate is open, BeginRelease
// adds the operation.
func (c *Catalog) OpenGate(
	ctx context.Context, g *carillon.Gate, how Opening, beside *carillon.Change,
) error {
	if g.Open(how.By, how.Rate, how.At); g.Operation != 0 {
		beside.Folds = append(beside.Folds, g.Rated())
		return nil
	}
	first, err := c.cfg.Store.Line(ctx, carillon.LineQuery{
		Lines: []carillon.HoldName{{Namespace: g.Namespace, Hold: g.Hold()}}, Until: carillon.Never, Limit: 1,
	})
	if err != nil || len(first) == 0 {
		return err
	}
	return c.begin(g, how.At, beside)
}

func (c *Catalog) begin(g *carillon.Gate, now carillon.Time, beside *carillon.Change) error {
	id, err := c.cfg.Ledger.NextOperation(now)
	if err != nil {
		return err
	}
	add(beside, g.BeginRelease(id, now))
	return nil
}

func add(to *carillon.Change, more carillon.Change) {
	to.Guards = append(to.Guards, more.Guards...)
	to.Folds = append(to.Folds, more.Folds...)
}

// BeginRelease makes the release of a gate an operation, if runs wait for it and it has no operation that is
// open: the gate has expired, or an older node opened it, or it held no run when it was opened. The error is
// carillon.ErrConflict if the gate has changed.
func (c *Catalog) BeginRelease(ctx context.Context, g *carillon.Gate) error {
	return c.changeGate(ctx, g, func(
		g *carillon.Gate, now carillon.Time, beside *carillon.Change,
	) (remove bool, err error) {
		if g.State(now) == carillon.GateClosed {
			return false, fmt.Errorf("%w: gate %s is closed", carillon.ErrConflict, g.ID)
		}
		record, err := c.openRelease(ctx, g)
		if err != nil {
			return false, err
		}
		if record != nil {
			return false, fmt.Errorf(
				"%w: %s is the release of gate %s", carillon.ErrConflict, record.ID, g.ID,
			)
		}
		return false, c.begin(g, now, beside)
	})
}

// openRelease is the operation of a gate; nil if it has none, or if it is over.
func (c *Catalog) openRelease(
	ctx context.Context, g *carillon.Gate,
) (*carillon.OperationRecord, error) {
	if g.Operation == 0 {
		return nil, nil
	}
	record, err := c.cfg.Ledger.Operation(ctx, g.Namespace, g.Operation)
	switch {
	case errors.Is(err, carillon.ErrNotFound) || err == nil && record.State.Over():
		return nil, nil
	case err != nil:
		return nil, err
	}
	return &record, nil
}

// Ending says how and why a release ends, and when.
type Ending struct {
	State  carillon.OperationState
	Reason string
	At     carillon.Time
}

// EndRelease ends the release of a gate that a caller of Write writes or removes, if it has one.
func (c *Catalog) EndRelease(
	ctx context.Context, g *carillon.Gate, how Ending, beside *carillon.Change,
) error {
	record, err := c.openRelease(ctx, g)
	if err == nil && record != nil {
		add(beside, record.EndRelease(how.State, how.Reason, how.At))
	}
	return err
}

var (
	errCanceledBefore = errors.New("the operation was canceled before")
	errDetached       = errors.New("its gate does not name the operation")
)

// CancelRelease ends a release, and closes its gate again: no run leaves once CancelRelease returns. op says
// which one by its namespace, id and gate, and gets the rest before the answer of an idempotency key is made.
// To cancel it again changes nothing.
func (c *Catalog) CancelRelease(ctx context.Context, op *carillon.Operation, by string) error {
	gate := op.Release.Gate
	end := func(now carillon.Time, beside *carillon.Change) error {
		record, err := c.cfg.Ledger.Operation(ctx, op.Namespace, op.ID)
		if err != nil {
			return err
		}
		*op = record.Operation
		switch {
		case op.State == carillon.OperationCanceled:
			return errCanceledBefore
		case op.State.Over():
			return fmt.Errorf("%w: %s is %s", carillon.ErrConflict, op.ID, op.State)
		}
		add(beside, record.EndRelease(carillon.OperationCanceled, ClosedAgain(gate, by), now))
		*op = record.Operation
		return nil
	}
	_, err := Gates.Write(ctx, c, Name{op.Namespace, gate}, by, func(
		was, next *Record[carillon.Gate], beside *carillon.Change,
	) (remove bool, err error) {
		if err := end(next.At, beside); err != nil {
			return false, err
		}
		present := GateIn(was)
		if present == nil || present.Operation != op.ID {
			return false, errDetached
		}
		present.CloseAgain(by, next.At)
		next.Value = *present
		return false, nil
	})
	if errors.Is(err, errDetached) { // there is no gate to close: see TidyReleases
		err = c.cfg.Ledger.Update(ctx, op.Namespace, func(now carillon.Time) (carillon.Change, error) {
			var change carillon.Change
			err := end(now, &change)
			return change, err
		})
	}
	if errors.Is(err, errCanceledBefore) {
		return c.cfg.Ledger.Used(ctx, op.Namespace) // a repeated request gets its own answer
	}
	return err
}

// ClosedAgain is why a release was canceled.
func ClosedAgain(gate, by string) string {
	words := "gate " + gate + " was closed again"
	if by != "" {
		words += " by " + by
	}
	return words
}

// TidyReleases ends the open releases of this node whose gate does not name them: see
// carillon.OperationRecord.Orphaned.
func (c *Catalog) TidyReleases(ctx context.Context, owns func(shard int) bool) (failed error) {
	guards, err := c.cfg.Store.Guards(ctx, carillon.OpenReleaseQuery())
	if err != nil {
		return err
	}
	for i := range guards {
		namespace, id, err := carillon.OpenOperationOf(&guards[i])
		if err != nil || !owns(id.Shard()) {
			continue
		}
		err = c.cfg.Ledger.Update(ctx, namespace, func(now carillon.Time) (carillon.Change, error) {
			return c.tidy(ctx, namespace, id, now)
		})
		if err != nil && !errors.Is(err, errTidy) { // go on: the others can be in order
			failed = errors.Join(failed, fmt.Errorf("release %s: %w", id, err))
		}
	}
	return failed
}

var errTidy = errors.New("the release is in order")

// tidy ends one release. It reads the gate after the operation, from the store: one change writes both, so
// the gate names an operation that was found, unless an older node has changed the gate since.
func (c *Catalog) tidy(
	ctx context.Context, namespace string, id carillon.OperationID, now carillon.Time,
) (change carillon.Change, err error) {
	record, err := c.cfg.Ledger.Operation(ctx, namespace, id)
	if errors.Is(err, carillon.ErrNotFound) || err == nil && (record.State.Over() || record.Release == nil) {
		return change, errTidy
	}
	if err != nil {
		return change, err
	}
	name := Name{namespace, record.Release.Gate}
	guards, err := c.cfg.Store.Guards(ctx, carillon.GuardQuery{
		Namespace: Space, Keys: []string{name.key(Gates.name)},
	})
	if err != nil {
		return change, err
	}
	var gate *carillon.Gate
	if len(guards) > 0 {
		stored, err := Gates.record(name, &guards[0])
		if err != nil {
			return change, err
		}
		gate = GateIn(stored)
	}
	state, reason, is := record.Orphaned(gate, now)
	if !is {
		return change, errTidy
	}
	return record.EndRelease(state, reason, now), nil
}
