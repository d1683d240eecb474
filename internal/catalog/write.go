package catalog

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"

	"github.com/carillon-run/carillon"
)

// Write writes what decide makes of the present record, which is nil if there is none: decide sets the Value
// of next, or has the record removed. All else of next is known already, but for its revision. So the answer
// to a write with an idempotency key, which is made before the write is committed, can say it. decide
// adds to beside what has to be written in the same change.
//
// If another writer is quicker, decide is called again. The record is in force on this node when Write
// returns, and on every other node within a second. An error of decide is returned as it is. A write whose
// context carries an idempotency key of the namespace of the record can return the errors of
// ledger.Ledger.Used.
func (k Kind[T]) Write(
	ctx context.Context, c *Catalog, name Name, by string,
	decide func(was, next *Record[T], beside *carillon.Change) (remove bool, err error),
) (next Record[T], err error) {
	key := name.key(k.name)
	var guard carillon.Guard
	err = c.cfg.Ledger.Update(ctx, name.Namespace, func(now carillon.Time) (_ carillon.Change, err error) {
		guards, err := c.cfg.Store.Guards(ctx, carillon.GuardQuery{Namespace: Space, Keys: []string{key}})
		if err != nil {
			return carillon.Change{}, err
		}
		guard = carillon.Guard{Namespace: Space, Key: key}
		var was *Record[T]
		if len(guards) > 0 {
			guard = guards[0]
			if was, err = k.record(name, &guard); err != nil {
				// It is not in force, so it counts as absent. The write goes on with its revision.
				c.cfg.Logger.Error(
					"read a record of the catalog: it counts as absent", "key", key, "error", err,
				)
				was = nil
			}
		}
		next = Record[T]{Name: name, By: by, At: now}
		var change carillon.Change
		removed, err := decide(was, &next, &change)
		if err != nil {
			return carillon.Change{}, err
		}
		if err := next.into(&guard, removed); err != nil {
			return carillon.Change{}, err
		}
		change.Guards = append(change.Guards, guard)
		change.Folds = append(change.Folds, newEpoch())
		return change, nil
	})
	if err != nil {
		return next, err
	}
	guard.Rev++
	next.Rev = guard.Rev
	known, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookTime)
	defer cancel()
	if err := c.refresh(known); err != nil {
		c.install(context.WithoutCancel(ctx), guard) // it is written, whatever the store answers now
	}
	return next, nil
}

// into writes the record into its guard.
func (r *Record[T]) into(guard *carillon.Guard, removed bool) (err error) {
	s := stored{By: r.By, At: r.At, Removed: removed}
	if guard.Expires = r.At; !removed {
		guard.Expires = 0
		if s.Value, err = json.Marshal(r.Value); err != nil {
			return err
		}
	}
	guard.Value, err = json.Marshal(s)
	return err
}

// newEpoch is the step of the epoch that a write of a record makes. The value differs from that of any other
// write.
func newEpoch() carillon.Fold {
	value := fmt.Appendf(nil, "%016x", rand.Uint64())
	return carillon.Fold{Namespace: Space, Key: epochKey, Step: func(
		g carillon.Guard, _ carillon.Time,
	) (carillon.Guard, bool) {
		g.Value = value
		return g, true
	}}
}
