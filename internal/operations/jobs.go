package operations

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/ledger"
)

// scanPage is how many jobs are read at a time where the store cannot search for all that the filter says.
const scanPage = 200

// jobs are the kinds that act on jobs.
type jobs struct {
	store  carillon.Store
	ledger *ledger.Ledger
	clock  *carillon.Clock
}

// Find returns ids of jobs, newest first. Jobs that were created after the operation began are not among
// them. A cursor is the id of a job.
func (j *jobs) Find(
	ctx context.Context, op *carillon.Operation, cursor string, limit int,
) (items []string, next string, err error) {
	q := op.Filter.Query(op.Namespace, op.Created)
	q.Limit = limit
	if op.Filter.Queue != "" || strings.Contains(op.Filter.Type+op.Filter.Name, "*") {
		q.Limit = max(limit, scanPage)
	}
	if cursor != "" {
		if q.Before, err = carillon.ParseJobID(cursor); err != nil {
			return nil, "", err
		}
	}
	page, err := j.store.FindJobs(ctx, q)
	if err != nil {
		return nil, "", err
	}
	for i := range page.Jobs {
		if !op.Filter.Chooses(&page.Jobs[i]) {
			continue
		}
		if len(items) == limit {
			return items, items[limit-1], nil
		}
		items = append(items, page.Jobs[i].ID.String())
	}
	if page.Next != 0 {
		next = page.Next.String()
	}
	return items, next, nil
}

// Do changes one job. A job that is as it should be counts as done: it was chosen because it was not, so most
// likely an earlier try has changed it.
func (j *jobs) Do(ctx context.Context, op *carillon.Operation, item string) error {
	id, err := carillon.ParseJobID(item)
	if err != nil {
		return err
	}
	var want carillon.JobState
	switch op.Kind {
	case carillon.OperationPause:
		want = carillon.JobPaused
		_, err = j.ledger.PauseJob(ctx, op.Namespace, id)
	case carillon.OperationResume:
		want = carillon.JobActive
		_, err = j.ledger.ResumeJob(ctx, op.Namespace, id)
	case carillon.OperationCancel:
		want = carillon.JobCanceled
		_, err = j.ledger.CancelUnfinishedJob(ctx, op.Namespace, id, op.KeepRunning)
	case carillon.OperationRun:
		err = j.run(ctx, op, id)
	}
	switch {
	case errors.Is(err, carillon.ErrNotFound):
		return ErrSkipped
	case errors.Is(err, carillon.ErrConflict):
		return j.inConflict(ctx, id, want, err)
	}
	return err
}

// inConflict is the result for a job that could not be changed to the wanted state (0: run) because of the
// state that it is in.
func (j *jobs) inConflict(ctx context.Context, id carillon.JobID, want carillon.JobState, why error) error {
	found, err := j.store.Jobs(ctx, []carillon.JobVersion{{Job: id}})
	switch {
	case err != nil:
		return err
	case len(found) == 0 || found[0].State == carillon.JobCanceled:
		return ErrSkipped
	case want == 0:
		return why // such as a run that has not ended, where runs must not overlap
	case found[0].State != want:
		return ErrSkipped
	}
	return nil
}

// trusted is how long after its last write a record can be continued by adding runs: the idempotency keys of
// the runs that were added after that write are still in force.
const trusted = carillon.IdempotencyTime - time.Hour

// run adds a run. An idempotency key makes sure that it adds only one, however often it is called.
func (j *jobs) run(ctx context.Context, op *carillon.Operation, id carillon.JobID) error {
	if j.clock.Now().Sub(op.Updated) > trusted {
		return fmt.Errorf(
			"%w: the operation stood still since %s, and it is not known whether the run was added before",
			carillon.ErrConflict, op.Updated,
		)
	}
	once, err := carillon.NewOnce("key", op.ID.String()+"/"+id.String())
	if err != nil {
		return err
	}
	once.Request = op.ID.String()
	once.Answer = func(_ *carillon.Job, run *carillon.Run) (json.RawMessage, error) {
		return json.Marshal(run.ID)
	}
	ctx = once.Context(ctx)
	_, err = j.ledger.RunNow(ctx, op.Namespace, id, nil)
	if errors.Is(err, carillon.ErrConflict) {
		// The run that was added before can be why another one is refused.
		if used := j.ledger.Used(ctx, op.Namespace); used != nil {
			err = used
		}
	}
	var repeated *carillon.RepeatedError
	if errors.As(err, &repeated) {
		return nil
	}
	return err
}
