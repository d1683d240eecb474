package operations

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/carillon-run/carillon"
)

// act acts on pending things until none is left, or until the time has come. Things on which it could not act
// because of an outage stay pending. It returns on how many it acted, and the error of the outage.
func (l *Loop) act(ctx context.Context, kind Kind, w *work, until time.Time) (acted int, outage error) {
	r := &w.record
	for len(r.Pending) > 0 && outage == nil {
		some, results := each(ctx, kind, r)
		var left []string
		for i, item := range some {
			if !w.counted(item, results[i]) {
				left, outage = append(left, item), results[i]
			}
		}
		acted += len(some) - len(left)
		r.Pending = append(left, r.Pending[len(some):]...)
		if !time.Now().Before(until) {
			break
		}
	}
	return acted, outage
}

// each acts on some of the pending things.
func each(ctx context.Context, kind Kind, r *carillon.OperationRecord) (some []string, results []error) {
	if kind, ok := kind.(Together); ok {
		return r.Pending, kind.DoAll(ctx, &r.Operation, r.Pending)
	}
	some = r.Pending[:min(width, len(r.Pending))]
	results = make([]error, len(some))
	var acting sync.WaitGroup
	for i, item := range some {
		acting.Go(func() { results[i] = kind.Do(ctx, &r.Operation, item) })
	}
	acting.Wait()
	return some, results
}

// counted adds the result of one thing to the record. It returns false if the thing must be tried again. A
// thing that fails again and again while others succeed counts as failed in the end: it must not hold up the
// operation for ever.
func (w *work) counted(item string, err error) bool {
	switch {
	case err == nil:
		w.record.Done++
	case errors.Is(err, ErrSkipped):
		w.record.Skipped++
	case refused(err):
		w.record.Fail(item, err)
	default:
		if w.tries[item]++; w.tries[item] < maxTries {
			return false
		}
		w.record.Fail(item, err)
	}
	delete(w.tries, item)
	return true
}
