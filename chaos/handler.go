package chaos

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"os"
	"strconv"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/chaos/check"
	"github.com/carillon-run/carillon/executor"
)

// Work is the payload of a job whose body is a handler: what the body does besides writing witness lines.
type Work struct {
	For carillon.Duration `json:"for"` // how long it takes
	// First is how long the first attempt takes instead; 0: as long as the others.
	First carillon.Duration `json:"first,omitempty"`
	Fails int32             `json:"fails,omitempty"` // how many of the first attempts fail
	Fatal bool              `json:"fatal,omitempty"` // every run that repeats none fails for good
	// Version is written to the witness lines: an edit raises it.
	Version int32 `json:"version,omitempty"`
	// Overlap is that of the job: workers are not told.
	Overlap carillon.Overlap `json:"overlap,omitempty"`
}

// errAsked is the error of an attempt that fails because its payload asks for it.
var errAsked = errors.New(check.AskedReason)

// asked is the failure that the payload asks for in an attempt; nil: none. A run that repeats another one
// stands for a time other than its own.
func (w *Work) asked(run *carillon.Run) error {
	if w.Fatal && run.Covers == run.ID.Due || run.Attempt <= w.Fails {
		return errAsked
	}
	return nil
}

// Handler is a job's body inside a worker's process: it writes the same lines as Body. The result of a run is
// the number of the attempt that ended it.
func Handler(witness, register string) (executor.Handler, error) {
	f, err := open(witness)
	if err != nil {
		return nil, err
	}
	to := newRegisterClient(register)
	return func(ctx context.Context, task executor.Task) error {
		var work Work
		if err := json.Unmarshal(task.Job.Payload, &work); err != nil {
			return executor.Fatal(err)
		}
		run := &task.Run
		v := newVoice(f, to, check.KeyOf(run.ID, work.Overlap), check.Line{
			Run: run.ID, Attempt: run.Attempt, Fence: run.Fence(), Version: max(work.Version, 1),
			Process: int32(os.Getpid()),
		})
		takes := work.For
		if run.Attempt == 1 {
			takes = cmp.Or(work.First, takes)
		}
		err := v.attempt(ctx, takes.Std(), work.asked(run))
		switch {
		case work.Fatal && errors.Is(err, errAsked):
			return executor.Fatal(errAsked)
		case err != nil:
			return err
		}
		return task.SetResult([]byte(strconv.Itoa(int(run.Attempt))))
	}, nil
}
