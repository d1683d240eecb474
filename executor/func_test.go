package executor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
)

func TestFuncs(t *testing.T) {
	broken := errors.New("broken")
	big := make([]byte, carillon.MaxResult+1)
	canceled := func(cause error) func() context.Context {
		return func() context.Context {
			ctx, cancel := context.WithCancelCause(context.Background())
			cancel(cause)
			return ctx
		}
	}
	for _, c := range []struct {
		name string
		h    Handler
		ctx  func() context.Context
		want carillon.Outcome
	}{
		{
			"nil is success", func(context.Context, Task) error { return nil }, nil,
			carillon.Outcome{Kind: carillon.OutcomeSuccess},
		},
		{
			"an error is retriable", func(context.Context, Task) error { return broken }, nil,
			retriable("broken"),
		},
		{
			"a fatal error is fatal, however wrapped",
			func(context.Context, Task) error { return fmt.Errorf("x: %w", Fatal(broken)) }, nil,
			fatal("x: broken"),
		},
		{
			"the root package's own sentinel is fatal too",
			func(context.Context, Task) error { return carillon.ErrPermanent }, nil,
			fatal("will never succeed"),
		},
		{
			"an error may say when to try again",
			func(context.Context, Task) error { return RetryAfter(time.Minute, broken) }, nil,
			carillon.Outcome{Kind: carillon.OutcomeRetriable, Reason: "broken", RetryAfter: time.Minute},
		},
		{
			"no error may be given with it",
			func(context.Context, Task) error { return RetryAfter(time.Minute, nil) }, nil,
			carillon.Outcome{
				Kind: carillon.OutcomeRetriable, Reason: "asked to be tried again", RetryAfter: time.Minute,
			},
		},
		{
			"a panic is retriable", func(context.Context, Task) error { panic("oh no") }, nil,
			retriable("panic: oh no"),
		},
		{
			"a result is handed back",
			func(_ context.Context, task Task) error { return task.SetResult([]byte(`{"n":1}`)) }, nil,
			carillon.Outcome{
				Kind: carillon.OutcomeSuccess, Output: &carillon.Output{Result: []byte(`{"n":1}`)},
			},
		},
		{
			"a result that is too large is an error",
			func(_ context.Context, task Task) error { return task.SetResult(big) }, nil,
			retriable(
				"a result of 65537 bytes is too large: at most 65536; keep it elsewhere and hand back its address",
			),
		},
		{
			"a checkpoint that is too large is an error",
			func(ctx context.Context, task Task) error { return task.Save(ctx, big) }, nil,
			retriable("a checkpoint of 65537 bytes is too large: at most 65536"),
		},
		{
			"work that was done in spite of the timeout is success",
			func(context.Context, Task) error { return nil }, canceled(ErrTimeout),
			carillon.Outcome{Kind: carillon.OutcomeSuccess},
		},
		{
			"the context's error is put down to its cause: timeout",
			func(ctx context.Context, _ Task) error { return ctx.Err() }, canceled(ErrTimeout),
			retriable("timed out after 5s"),
		},
		{
			"the context's error is put down to its cause: stop",
			func(ctx context.Context, _ Task) error { return ctx.Err() },
			canceled(fmt.Errorf("%w by ann", ErrStopped)),
			carillon.Outcome{Kind: carillon.OutcomeStopped, Reason: "stopped on request by ann"},
		},
		{
			"a shutdown is a loss even if the handler calls it fatal",
			func(ctx context.Context, _ Task) error { return Fatal(ctx.Err()) }, canceled(ErrShutdown),
			carillon.Outcome{Kind: carillon.OutcomeLost, Reason: "the worker was shutting down"},
		},
		{
			"a reason is valid text and short",
			func(context.Context, Task) error { return errors.New("\xff\x00" + strings.Repeat("é", 1000)) },
			nil,
			carillon.Outcome{
				Kind: carillon.OutcomeRetriable, Reason: "\uFFFD\uFFFD" + strings.Repeat("é", 497) + "…",
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := NewFuncs()
			f.Register("a.type", c.h)
			task, _ := newTask(carillon.Target{Handler: &carillon.Handler{}})
			task.Job.Timeout = carillon.Duration(5 * time.Second)
			ctx := context.Background()
			if c.ctx != nil {
				ctx = c.ctx()
			}
			same(t, f.Execute(ctx, task), c.want)
		})
	}
}

func TestFuncsRegistry(t *testing.T) {
	f := NewFuncs()
	f.Register("b", func(context.Context, Task) error { return nil })
	f.Register("a", func(context.Context, Task) error { return nil })
	if got := f.Types(); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("types: %v", got)
	}
	t.Run("a type that is not registered is left to other workers", func(t *testing.T) {
		task, _ := newTask(carillon.Target{Handler: &carillon.Handler{}})
		same(
			t, f.Execute(context.Background(), task),
			Unable("this worker has no handler for type a.type"),
		)
	})
	t.Run("a second handler for a type is a mistake", func(t *testing.T) {
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		f.Register("a", func(context.Context, Task) error { return nil })
	})
}

func TestTheStackOfAPanicIsInTheLog(t *testing.T) {
	f := NewFuncs()
	f.Register("a.type", func(context.Context, Task) error { panic("oh no") })
	task, r := newTask(carillon.Target{Handler: &carillon.Handler{}})
	f.Execute(context.Background(), task)
	if got := r.output(); !strings.Contains(got, "carillon: panic: oh no") ||
		!strings.Contains(got, "func_test.go:") {
		t.Errorf("log: %s", got)
	}
}

// panicking is an executor that panics.
type panicking struct{}

func (panicking) Execute(context.Context, Task) carillon.Outcome { panic("oh no") }

func TestAPanicOfAnExecutorIsAnOutcome(t *testing.T) {
	task, r := newTask(carillon.Target{Handler: &carillon.Handler{}})
	if got := Perform(context.Background(), panicking{}, task); got.Kind != carillon.OutcomeRetriable ||
		got.Reason != "panic: oh no" {
		t.Errorf("%+v", got)
	}
	if got := r.output(); !strings.Contains(got, "func_test.go:") {
		t.Errorf("no stack in the log: %s", got)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(ErrShutdown)
	if got := Perform(ctx, panicking{}, task); got.Kind != carillon.OutcomeLost {
		t.Errorf("after the end of its context: %+v", got)
	}
}

func TestALeaseIsOnlyEverExtended(t *testing.T) {
	var l Lease
	l.Extend(5 * time.Second)
	l.Extend(3 * time.Second)
	if l.Until() != 5*time.Second {
		t.Errorf("until %s", l.Until())
	}
}
