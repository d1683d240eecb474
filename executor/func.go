package executor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/carillon-run/carillon"
)

// Handler performs one attempt of a run inside the application. nil is success; Fatal(err) ends the run for
// good; RetryAfter(d, err) asks for the next attempt not before d; any other error, and a panic, is retried
// by the job's policy. It must return soon after ctx ends: nothing can kill it. As in net/http, handlers
// share goroutines: a handler that locks its thread (runtime.LockOSThread) must unlock it.
type Handler func(ctx context.Context, task Task) error

// Fatal marks an error as one that no further attempt can cure. It is carillon.ErrPermanent; Fatal(nil) is
// nil.
func Fatal(err error) error {
	if err == nil {
		return nil
	}
	return &permanent{err}
}

type permanent struct{ error }

func (e *permanent) Unwrap() error        { return e.error }
func (e *permanent) Is(target error) bool { return target == carillon.ErrPermanent }

// RetryAfter is err and the wish that the next attempt starts not earlier than d from now.
func RetryAfter(d time.Duration, err error) error {
	if err == nil {
		err = errors.New("asked to be tried again")
	}
	return &postponed{err, d}
}

type postponed struct {
	error
	after time.Duration
}

func (e *postponed) Unwrap() error { return e.error }

// Funcs performs runs with functions that the application registers by job type.
type Funcs struct {
	mu       sync.RWMutex
	handlers map[string]Handler
	types    []string // made anew by Register: workers read it with every pull
}

// NewFuncs returns Funcs without handlers.
func NewFuncs() *Funcs { return &Funcs{handlers: map[string]Handler{}} }

// Register sets the handler of a job type. A second one for the same type is a mistake in the program and
// panics.
func (f *Funcs) Register(jobType string, h Handler) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case h == nil:
		panic("executor: nil handler for type " + jobType)
	case f.handlers[jobType] != nil:
		panic("executor: second handler for type " + jobType)
	}
	f.handlers[jobType] = h
	f.types = slices.Sorted(maps.Keys(f.handlers))
}

// Types are the job types that have a handler, sorted. A worker gets runs of these types only.
func (f *Funcs) Types() []string {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.types
}

// SharesGoroutine implements Sharer.
func (*Funcs) SharesGoroutine() {}

// Execute calls the handler of the job's type.
func (f *Funcs) Execute(ctx context.Context, task Task) carillon.Outcome {
	f.mu.RLock()
	h := f.handlers[task.Job.Type]
	f.mu.RUnlock()
	if h == nil {
		return Unable(fmt.Sprintf("this worker has no handler for type %s", task.Job.Type))
	}
	task.result, task.Save = &result{}, bounded(task.Save)
	if task.Print == nil {
		task.Print = discard
	}
	err := call(ctx, h, task)
	o := task.handled(ctx, err)
	o.Output = task.output()
	return o
}

func discard(string, string) {}

// handled returns success for nil even after ctx has ended, because the work is done then. It attributes an
// error after that to the cause: a handler that returns ctx's own error, however wrapped, must not turn a
// shutdown into a failure.
func (t Task) handled(ctx context.Context, err error) carillon.Outcome {
	switch {
	case err == nil:
		return carillon.Outcome{Kind: carillon.OutcomeSuccess}
	case ctx.Err() != nil:
		return t.ended(context.Cause(ctx))
	case errors.Is(err, carillon.ErrPermanent):
		return carillon.Outcome{Kind: carillon.OutcomeFatal, Reason: reason(err)}
	}
	o := carillon.Outcome{Kind: carillon.OutcomeRetriable, Reason: reason(err)}
	if later := (*postponed)(nil); errors.As(err, &later) {
		o.RetryAfter = max(later.after, 0)
	}
	return o
}

// call turns a panic into an error. It cannot do so for runtime.Goexit (which t.FailNow calls): see Executor.
func call(ctx context.Context, h Handler, task Task) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = task.panicked(p)
		}
	}()
	return h(ctx, task)
}

// panicked prints a panic and where it came from.
func (t Task) panicked(p any) error {
	t.remark("panic: %v", p)
	for line := range strings.Lines(string(debug.Stack())) {
		t.remark("%s", strings.TrimRight(line, "\n"))
	}
	return fmt.Errorf("panic: %v", p)
}
