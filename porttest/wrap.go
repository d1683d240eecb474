package porttest

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/carillon-run/carillon"
)

// ErrInjected is the error of a call that a wrapper of this package makes fail.
var ErrInjected = errors.New("injected failure")

// fault is what happens to a call.
type fault uint8

const (
	fine    fault = iota
	refused       // the call is not made
	unknown       // the call is made, and its answer is lost
)

// Faulty is a store of which some calls fail. After an error of Commit the outcome is unknown: callers must
// read again, and these wrappers make them do so.
type Faulty struct {
	store carillon.Store
	plan  func(method string, call int) fault

	mu    sync.Mutex
	calls map[string]int
}

var _ carillon.Store = (*Faulty)(nil)

// Failing makes some calls of a method fail before they do anything. calls counts from 1; none given: all
// fail.
func Failing(store carillon.Store, method string, calls ...int) *Faulty {
	return newFaulty(store, method, calls, refused)
}

// Unknown makes some calls of a method fail after they did their work. calls counts from 1; none given: all
// fail.
func Unknown(store carillon.Store, method string, calls ...int) *Faulty {
	return newFaulty(store, method, calls, unknown)
}

// Lossy makes a share of all calls fail, half of them after they did their work.
func Lossy(store carillon.Store, random *rand.Rand, share float64) *Faulty {
	return &Faulty{store: store, calls: map[string]int{}, plan: func(string, int) fault {
		switch at := random.Float64(); {
		case at < share/2:
			return refused
		case at < share:
			return unknown
		}
		return fine
	}}
}

func newFaulty(store carillon.Store, method string, calls []int, how fault) *Faulty {
	if !slices.Contains(
		[]string{
			"Commit", "Jobs", "Runs", "Attempts", "Guards", "Wakes", "Line", "Holds", "Counts", "FindJobs",
			"FindRuns", "DeadGroups", "Forget",
		}, method,
	) {
		panic("a store has no method " + method)
	}
	return &Faulty{store: store, calls: map[string]int{}, plan: func(called string, call int) fault {
		if called == method && (len(calls) == 0 || slices.Contains(calls, call)) {
			return how
		}
		return fine
	}}
}

// Calls is how often a method was called.
func (f *Faulty) Calls(method string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[method]
}

// around makes a call as planned. It holds the lock while it asks the plan: a source of random numbers has no
// lock.
func around[T any](f *Faulty, method string, call func() (T, error)) (T, error) {
	f.mu.Lock()
	f.calls[method]++
	how := f.plan(method, f.calls[method])
	f.mu.Unlock()
	var none T
	if how == refused {
		return none, ErrInjected
	}
	answer, err := call()
	if how == unknown {
		return none, ErrInjected
	}
	return answer, err
}

func (f *Faulty) Commit(ctx context.Context, changes []carillon.Change) (lost []int, err error) {
	return around(f, "Commit", func() ([]int, error) { return f.store.Commit(ctx, changes) })
}

func (f *Faulty) Jobs(ctx context.Context, ids []carillon.JobVersion) ([]carillon.Job, error) {
	return around(f, "Jobs", func() ([]carillon.Job, error) { return f.store.Jobs(ctx, ids) })
}

func (f *Faulty) Runs(ctx context.Context, ids []carillon.RunID, whole bool) ([]carillon.Run, error) {
	return around(f, "Runs", func() ([]carillon.Run, error) { return f.store.Runs(ctx, ids, whole) })
}

func (f *Faulty) Attempts(
	ctx context.Context, run carillon.RunID, after int32, limit int,
) ([]carillon.Attempt, error) {
	return around(f, "Attempts", func() ([]carillon.Attempt, error) {
		return f.store.Attempts(ctx, run, after, limit)
	})
}

func (f *Faulty) Guards(ctx context.Context, q carillon.GuardQuery) ([]carillon.Guard, error) {
	return around(f, "Guards", func() ([]carillon.Guard, error) { return f.store.Guards(ctx, q) })
}

func (f *Faulty) Wakes(ctx context.Context, q carillon.WakeQuery) ([]carillon.Run, error) {
	return around(f, "Wakes", func() ([]carillon.Run, error) { return f.store.Wakes(ctx, q) })
}

func (f *Faulty) Line(ctx context.Context, q carillon.LineQuery) ([]carillon.Run, error) {
	return around(f, "Line", func() ([]carillon.Run, error) { return f.store.Line(ctx, q) })
}

func (f *Faulty) Holds(
	ctx context.Context, after carillon.HoldName, limit int,
) ([]carillon.HoldName, error) {
	return around(f, "Holds", func() ([]carillon.HoldName, error) { return f.store.Holds(ctx, after, limit) })
}

func (f *Faulty) Counts(
	ctx context.Context, namespace string, now carillon.Time,
) ([]carillon.QueueCount, error) {
	return around(f, "Counts", func() ([]carillon.QueueCount, error) {
		return f.store.Counts(ctx, namespace, now)
	})
}

func (f *Faulty) FindJobs(ctx context.Context, q carillon.JobQuery) (carillon.JobPage, error) {
	return around(f, "FindJobs", func() (carillon.JobPage, error) { return f.store.FindJobs(ctx, q) })
}

func (f *Faulty) FindRuns(ctx context.Context, q carillon.RunQuery) (carillon.RunPage, error) {
	return around(f, "FindRuns", func() (carillon.RunPage, error) { return f.store.FindRuns(ctx, q) })
}

func (f *Faulty) DeadGroups(
	ctx context.Context, q carillon.DeadGroupQuery,
) ([]carillon.DeadGroup, error) {
	return around(f, "DeadGroups", func() ([]carillon.DeadGroup, error) { return f.store.DeadGroups(ctx, q) })
}

func (f *Faulty) Forget(
	ctx context.Context, rule carillon.Retention, now carillon.Time, limit int,
) (int, error) {
	return around(f, "Forget", func() (int, error) { return f.store.Forget(ctx, rule, now, limit) })
}
