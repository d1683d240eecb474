package chaos

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/executor"
)

// Work is the payload of a job whose body is a handler: what the body does besides writing witness lines.
type Work struct {
	For carillon.Duration `json:"for"` // how long it takes
	// First is how long the first attempt takes instead; 0: as long as the others.
	First carillon.Duration `json:"first,omitempty"`
	Fails int32             `json:"fails,omitempty"` // how many of the first attempts fail
	Fatal bool              `json:"fatal,omitempty"` // it fails for good
}

// errAsked is the error of an attempt that fails because its payload asks for it.
var errAsked = errors.New("asked to fail")

// Handler is a job's body inside a worker's process: it writes the same lines as Body. The result of a run is
// the number of the attempt that ended it.
func Handler(witness string) (executor.Handler, error) {
	f, err := open(witness)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, task executor.Task) error {
		var work Work
		if err := json.Unmarshal(task.Job.Payload, &work); err != nil {
			return executor.Fatal(err)
		}
		v := voice{
			f, task.Run.ID.String(), strconv.Itoa(int(task.Run.Attempt)),
			strconv.FormatInt(task.Run.Fence(), 10),
		}
		takes := work.For
		if task.Run.Attempt == 1 {
			takes = cmp.Or(work.First, takes)
		}
		if err := v.live(ctx, takes.Std()); err != nil {
			return err
		}
		switch {
		case work.Fatal:
			return executor.Fatal(errAsked)
		case task.Run.Attempt <= work.Fails:
			return errAsked
		}
		return errors.Join(v.say("END"), task.SetResult([]byte(v.attempt)))
	}, nil
}

// voice writes the lines of an attempt's body.
type voice struct {
	to                  *os.File
	run, attempt, fence string
}

func (v voice) say(kind string) error {
	_, err := fmt.Fprintf(v.to, "%s %s %s %s %d\n", kind, v.run, v.attempt, v.fence, time.Now().UnixMilli())
	return err
}

// live writes that the body has started, and then, for d, that it is alive. It is silent as soon as ctx has
// ended.
func (v voice) live(ctx context.Context, d time.Duration) error {
	if err := v.say("START"); err != nil {
		return err
	}
	for end := time.Now().Add(d); time.Now().Before(end); {
		select {
		case <-time.After(min(10*time.Millisecond, time.Until(end))):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err := v.say("ALIVE"); err != nil {
			return err
		}
	}
	return nil
}

func open(witness string) (*os.File, error) {
	return os.OpenFile(witness, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
}
