package porttest

import (
	"context"
	"testing"

	"github.com/carillon-run/carillon"
)

// outside is a store that is used in a synctest bubble and works outside of it. Any store can be used so: the
// time of a bubble stands still while a goroutine in it waits for a channel from outside, so a call takes no
// time there, however long a database server needs. Without this the goroutines and connections of a store,
// which wait for a server, would belong to the bubble, and its time could not pass.
type outside struct {
	store carillon.Store
	free  chan doorway
}

// doorway is the way of one call out of the bubble and back. Both channels are made outside.
type doorway struct {
	calls chan func()
	done  chan struct{}
}

var _ carillon.Store = (*outside)(nil)

// newOutside must be called outside of the bubble.
func newOutside(t *testing.T, store carillon.Store) *outside {
	const atOnce = 16 // calls; more of them wait
	o := &outside{store: store, free: make(chan doorway, atOnce)}
	for range atOnce {
		d := doorway{calls: make(chan func()), done: make(chan struct{})}
		go func() {
			for call := range d.calls {
				call()
				d.done <- struct{}{}
			}
		}()
		o.free <- d
	}
	t.Cleanup(func() {
		for range atOnce {
			close((<-o.free).calls)
		}
	})
	return o
}

// across makes a call outside. The context of the caller belongs to the bubble, and cannot end meanwhile.
func across[T any](
	ctx context.Context, o *outside, call func(context.Context) (T, error),
) (answer T, err error) {
	if ctx.Err() != nil {
		return answer, ctx.Err()
	}
	d := <-o.free
	d.calls <- func() { answer, err = call(context.Background()) }
	<-d.done
	o.free <- d
	return answer, err
}

func (o *outside) Commit(ctx context.Context, changes []carillon.Change) (lost []int, err error) {
	return across(ctx, o, func(ctx context.Context) ([]int, error) { return o.store.Commit(ctx, changes) })
}

func (o *outside) Jobs(ctx context.Context, ids []carillon.JobVersion) ([]carillon.Job, error) {
	return across(ctx, o, func(ctx context.Context) ([]carillon.Job, error) { return o.store.Jobs(ctx, ids) })
}

func (o *outside) Runs(ctx context.Context, ids []carillon.RunID, whole bool) ([]carillon.Run, error) {
	return across(ctx, o, func(ctx context.Context) ([]carillon.Run, error) {
		return o.store.Runs(ctx, ids, whole)
	})
}

func (o *outside) Attempts(
	ctx context.Context, run carillon.RunID, after int32, limit int,
) ([]carillon.Attempt, error) {
	return across(ctx, o, func(ctx context.Context) ([]carillon.Attempt, error) {
		return o.store.Attempts(ctx, run, after, limit)
	})
}

func (o *outside) Guards(ctx context.Context, q carillon.GuardQuery) ([]carillon.Guard, error) {
	return across(ctx, o, func(ctx context.Context) ([]carillon.Guard, error) {
		return o.store.Guards(ctx, q)
	})
}

func (o *outside) Wakes(ctx context.Context, q carillon.WakeQuery) ([]carillon.Run, error) {
	return across(ctx, o, func(ctx context.Context) ([]carillon.Run, error) { return o.store.Wakes(ctx, q) })
}

func (o *outside) Line(ctx context.Context, q carillon.LineQuery) ([]carillon.Run, error) {
	return across(ctx, o, func(ctx context.Context) ([]carillon.Run, error) { return o.store.Line(ctx, q) })
}

func (o *outside) Holds(
	ctx context.Context, after carillon.HoldName, limit int,
) ([]carillon.HoldName, error) {
	return across(ctx, o, func(ctx context.Context) ([]carillon.HoldName, error) {
		return o.store.Holds(ctx, after, limit)
	})
}

func (o *outside) Counts(
	ctx context.Context, namespace string, now carillon.Time,
) ([]carillon.QueueCount, error) {
	return across(ctx, o, func(ctx context.Context) ([]carillon.QueueCount, error) {
		return o.store.Counts(ctx, namespace, now)
	})
}

func (o *outside) FindJobs(ctx context.Context, q carillon.JobQuery) (carillon.JobPage, error) {
	return across(ctx, o, func(ctx context.Context) (carillon.JobPage, error) {
		return o.store.FindJobs(ctx, q)
	})
}

func (o *outside) FindRuns(ctx context.Context, q carillon.RunQuery) (carillon.RunPage, error) {
	return across(ctx, o, func(ctx context.Context) (carillon.RunPage, error) {
		return o.store.FindRuns(ctx, q)
	})
}

func (o *outside) DeadGroups(
	ctx context.Context, q carillon.DeadGroupQuery,
) ([]carillon.DeadGroup, error) {
	return across(ctx, o, func(ctx context.Context) ([]carillon.DeadGroup, error) {
		return o.store.DeadGroups(ctx, q)
	})
}

func (o *outside) Forget(
	ctx context.Context, rule carillon.Retention, now carillon.Time, limit int,
) (int, error) {
	return across(ctx, o, func(ctx context.Context) (int, error) {
		return o.store.Forget(ctx, rule, now, limit)
	})
}
