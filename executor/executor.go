package executor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/carillon-run/carillon"
)

// Executor performs one attempt of a run. It returns only when nothing of the attempt is left: its process
// tree is gone, its call has returned. When ctx ends it stops. context.Cause(ctx) says why, and decides the
// Outcome if it is one of the causes below.
//
// A worker calls Execute in a goroutine of its own, which ends with the attempt; see Sharer. An attempt that
// panics or ends its goroutine (runtime.Goexit, as t.FailNow does) ends only itself.
type Executor interface {
	Execute(ctx context.Context, task Task) carillon.Outcome
}

// Perform calls Execute. An executor that panics has failed, and can be tried again.
func Perform(ctx context.Context, with Executor, task Task) (outcome carillon.Outcome) {
	defer func() {
		if p := recover(); p != nil {
			outcome = task.handled(ctx, task.panicked(p))
		}
	}()
	return with.Execute(ctx, task)
}

// Sharer is an Executor that allows the worker to perform one attempt after another in the same goroutine,
// which is quicker for short attempts. The worker resets the profiler labels that an attempt has set, but an
// attempt that locks its thread (runtime.LockOSThread) must unlock it.
type Sharer interface {
	Executor
	SharesGoroutine()
}

// Why a worker ends an attempt: the causes of the context given to Execute. Each can be wrapped to say more,
// as in fmt.Errorf("%w by ann", ErrStopped); the text becomes the reason of the run.
var (
	ErrTimeout   = errors.New("timed out")                    // Retriable
	ErrStopped   = errors.New("stopped on request")           // Stopped
	ErrLeaseOver = errors.New("the worker's lease was over")  // Lost, and killed without grace
	ErrShutdown  = errors.New("the worker was shutting down") // Lost
)

// Task is one attempt to perform.
type Task struct {
	Run        carillon.Run
	Job        *carillon.Job
	Checkpoint []byte // last saved, nil if none

	// Lease is the lease of the worker. The worker extends it; commands are killed when it is over. nil: no
	// end.
	Lease *Lease

	// Print takes one line of output. It is safe for concurrent use; stream is "stdout", "stderr" or
	// "carillon".
	Print func(stream, line string)

	// Save saves a checkpoint under the fence of this attempt.
	Save func(ctx context.Context, checkpoint []byte) error

	result *result
}

// result keeps a handler's result until the attempt ends. All copies of a Task share it.
type result struct {
	mu    sync.Mutex
	bytes []byte
}

// Streams that lines are printed on.
const (
	stdout = "stdout"
	stderr = "stderr"
	remark = "carillon" // Carillon's own remarks about the attempt
)

// SetResult sets the result of the run if this attempt is its last; the last call counts. It refuses more
// than carillon.MaxResult.
func (t Task) SetResult(b []byte) error {
	if len(b) > carillon.MaxResult {
		err := fmt.Errorf(
			"a result of %d bytes is too large: at most %d; keep it elsewhere and hand back its address",
			len(b), carillon.MaxResult,
		)
		t.remark("%s", err) // also for readers of the log: handlers tend not to check
		return err
	}
	if t.result == nil {
		return errors.New("this task does not come from an executor: it has nowhere to put a result")
	}
	t.result.mu.Lock()
	defer t.result.mu.Unlock()
	t.result.bytes = append([]byte{}, b...)
	return nil
}

func (t Task) output() *carillon.Output {
	if t.result == nil {
		return nil
	}
	t.result.mu.Lock()
	defer t.result.mu.Unlock()
	return outputOf(t.result.bytes)
}

// outputOf is nil without a result: a nil Output keeps the result of an earlier attempt.
func outputOf(result []byte) *carillon.Output {
	if len(result) == 0 {
		return nil
	}
	return &carillon.Output{Result: result}
}

func (t Task) print(stream, line string) {
	if t.Print != nil {
		t.Print(stream, line)
	}
}

func (t Task) remark(format string, args ...any) {
	t.print(remark, clean(fmt.Sprintf(format, args...)))
}

// save refuses here, with words that help, what the store would refuse later.
func (t Task) save(ctx context.Context, checkpoint []byte) error {
	return bounded(t.Save)(ctx, checkpoint)
}

func bounded(save func(context.Context, []byte) error) func(context.Context, []byte) error {
	return func(ctx context.Context, checkpoint []byte) error {
		if len(checkpoint) > carillon.MaxCheckpoint {
			return fmt.Errorf(
				"a checkpoint of %d bytes is too large: at most %d", len(checkpoint), carillon.MaxCheckpoint,
			)
		}
		if save == nil {
			return nil
		}
		return save(ctx, checkpoint)
	}
}

// ended is the outcome of an attempt that was ended from outside, by the cause of its context.
func (t Task) ended(cause error) carillon.Outcome {
	cause = cmp.Or(cause, context.Canceled) // a loss at worst: never a panic in a worker's slot
	switch {
	case errors.Is(cause, ErrStopped):
		return carillon.Outcome{Kind: carillon.OutcomeStopped, Reason: reason(cause)}
	case cause == ErrTimeout && t.Job != nil && t.Job.Timeout > 0:
		return carillon.Outcome{
			Kind: carillon.OutcomeRetriable, Reason: "timed out after " + t.Job.Timeout.String(),
		}
	case errors.Is(cause, ErrTimeout), errors.Is(cause, context.DeadlineExceeded):
		return carillon.Outcome{Kind: carillon.OutcomeRetriable, Reason: reason(cause)}
	}
	// Lease over, shutdown, or a plain cancel by the worker: in each case the run did not cause its end.
	return carillon.Outcome{Kind: carillon.OutcomeLost, Reason: reason(cause)}
}

// Unable is the outcome of an attempt that this worker cannot perform. It is a loss, so that it costs the run
// nothing: another worker can perform it, or this one after a deploy. The run waits a moment before it is
// given out again.
func Unable(why string) carillon.Outcome {
	return carillon.Outcome{Kind: carillon.OutcomeLost, Reason: why, RetryAfter: time.Second}
}

func retriable(format string, args ...any) carillon.Outcome {
	return carillon.Outcome{Kind: carillon.OutcomeRetriable, Reason: reason(fmt.Errorf(format, args...))}
}

func fatal(format string, args ...any) carillon.Outcome {
	return carillon.Outcome{Kind: carillon.OutcomeFatal, Reason: reason(fmt.Errorf(format, args...))}
}

// maxReason keeps an error that quotes a whole document out of the run's row.
const maxReason = 1000

func reason(err error) string { return cut(clean(err.Error()), maxReason) }

// cut shortens text to so many bytes.
func cut(s string, most int) string {
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}

// clean makes text that every store takes: valid UTF-8, and no NUL, which PostgreSQL refuses.
func clean(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	return strings.ReplaceAll(s, "\x00", "\uFFFD")
}
