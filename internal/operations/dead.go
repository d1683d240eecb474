package operations

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/ledger"
)

// letters is the kind that retries dead letters.
type letters struct {
	store  carillon.Store
	ledger *ledger.Ledger
}

// Find returns ids of runs, latest first. Letters that died after the operation began are not among them: a
// run that fails again must not be retried again and again. A cursor is one of the store.
func (l *letters) Find(
	ctx context.Context, op *carillon.Operation, cursor string, limit int,
) (items []string, next string, err error) {
	if op.Dead == nil {
		return nil, "", fmt.Errorf("%w: the operation has no filter", carillon.ErrInvalid)
	}
	q := op.Dead.QueryUntil(op.Namespace, op.Created)
	q.After, q.Limit = cursor, limit
	page, err := l.store.FindRuns(ctx, q)
	if err != nil {
		return nil, "", err
	}
	for i := range page.Runs {
		items = append(items, page.Runs[i].ID.String())
	}
	return items, page.Next, nil
}

// Do retries one letter.
func (l *letters) Do(ctx context.Context, op *carillon.Operation, item string) error {
	return l.DoAll(ctx, op, []string{item})[0]
}

// DoAll retries letters. The commit compares that each is still a dead letter, so none is retried twice. A
// letter that is gone counts as done if a run repeats it since the operation began: most likely an earlier
// try has added that.
func (l *letters) DoAll(ctx context.Context, op *carillon.Operation, items []string) []error {
	ids := make([]carillon.RunID, len(items))
	for i, item := range items {
		ids[i], _ = carillon.ParseRunID(item) // Find has written it
	}
	results := l.ledger.RetryDeadLetters(ctx, op.Namespace, ids)
	for i, err := range results {
		if !errors.Is(err, carillon.ErrNotFound) {
			continue
		}
		repeated, err := l.repeated(ctx, op, ids[i])
		if results[i] = err; err == nil && !repeated {
			results[i] = ErrSkipped
		}
	}
	return results
}

// clocksApart is more than the clocks of two nodes can differ.
const clocksApart = time.Minute

// repeated says whether a run repeats the letter since the operation began. Runs are named by when they were
// added, or a little later.
func (l *letters) repeated(ctx context.Context, op *carillon.Operation, id carillon.RunID) (bool, error) {
	q := carillon.RunQuery{
		Namespace: op.Namespace, Job: id.Job, From: op.Created.Add(-clocksApart), Limit: scanPage,
	}
	for {
		page, err := l.store.FindRuns(ctx, q)
		if err != nil {
			return false, err
		}
		for i := range page.Runs {
			if page.Runs[i].RetryOf == id.Due {
				return true, nil
			}
		}
		if q.After = page.Next; page.Next == "" {
			return false, nil
		}
	}
}
