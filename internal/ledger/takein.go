package ledger

import (
	"context"
	"errors"

	"github.com/carillon-run/carillon"
)

// errBehind is for a job that must wait for an earlier one.
var errBehind = errors.New("an earlier job with the same unique key is not taken in yet")

// TakeIn stores jobs that applications left with their ids, each for itself. A job that is stored already is
// no error: a node took it in, and stopped before it could say so. A job whose key another one holds is not
// stored if it returns or replaces that one. It is decided once, too: its change has a guard with its id, as
// that of a request with an idempotency key. So for a day (carillon.IdempotencyTime) nodes know that it was
// taken in.
//
// failed has the jobs that were not taken in. Those whose error is carillon.ErrConflict or
// carillon.ErrInvalid are refused for ever; the others must be taken in again. Jobs with the same unique key
// are taken in in their order, so a job that failed holds up the later ones with its key.
func (l *Ledger) TakeIn(
	ctx context.Context, jobs []carillon.Job,
) (failed map[carillon.JobID]error, err error) {
	now := l.cfg.Clock.Now()
	changes := make([]carillon.Change, len(jobs))
	for i := range jobs {
		changes[i] = carillon.Submit(&jobs[i], now)
		if jobs[i].Unique == nil {
			continue
		}
		key, err := takenOnce(&jobs[i], now)
		if err != nil {
			return nil, err
		}
		key.add(&changes[i], carillon.Use{At: now, Jobs: []carillon.JobID{jobs[i].ID}}, now)
	}
	lost, err := l.Commit(ctx, changes)
	if err != nil {
		return nil, err
	}
	failed = map[carillon.JobID]error{}
	waits := map[uniqueKey]bool{}
	for _, i := range lost {
		job := &jobs[i]
		key := uniqueKey{job.Namespace, job.UniqueName()}
		if key.key == "" { // it is stored already
			continue
		}
		err := errBehind
		if !waits[key] {
			err = l.takeInUnique(ctx, job, now)
		}
		if err != nil {
			failed[job.ID] = err
			waits[key] = !errors.Is(err, carillon.ErrConflict) && !errors.Is(err, carillon.ErrInvalid)
		}
	}
	return failed, nil
}

// takenOnce is the idempotency key of a job that is taken in.
func takenOnce(job *carillon.Job, now carillon.Time) (*keyed, error) {
	once, err := carillon.NewOnce("key", "intake/"+job.ID.String())
	if err != nil {
		return nil, err
	}
	once.Request, once.At = job.ID.String(), now
	return &keyed{once: once, was: carillon.Guard{Namespace: job.Namespace}}, nil
}

func (l *Ledger) takeInUnique(ctx context.Context, job *carillon.Job, now carillon.Time) error {
	stored, err := l.cfg.Store.Jobs(ctx, []carillon.JobVersion{{Job: job.ID}})
	if err != nil || len(stored) > 0 {
		return err
	}
	key, err := takenOnce(job, now)
	if err != nil {
		return err
	}
	_, err = l.perform(ctx, &submission{
		namespace: job.Namespace, defs: []carillon.Definition{job.Definition}, ids: []carillon.JobID{job.ID},
		key: key, unique: true,
	})
	var repeated *carillon.RepeatedError
	var held *carillon.KeyHeldError
	if errors.As(err, &repeated) || errors.As(err, &held) && held.Job == job.ID {
		return nil // a node has taken it in before
	}
	if errors.Is(err, carillon.ErrConflict) || errors.Is(err, carillon.ErrInvalid) {
		// What it changed when it was taken in before can be why it is refused now.
		if used := l.look(ctx, key); errors.As(used, &repeated) {
			return nil
		}
	}
	return err
}
