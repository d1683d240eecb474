package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/client"
)

// submitAndWait shows the output of the job's first run, and ends with the verdict on it. Everything but the
// run's own output goes to standard error, so that a pipe gets what the program itself would have written
// into it.
//
// With quiet it prints the id of the job and nothing of the run.
func (a *app) submitAndWait(ctx context.Context, c *client.Client, job carillon.Job, quiet bool) error {
	waiting := *a
	if quiet {
		fmt.Fprintln(a.out, job.ID)
		waiting.out, waiting.err, waiting.format = io.Discard, io.Discard, "table"
	} else {
		a.submittedBlock(a.err, &job)
	}
	run, err := latestRun(ctx, c, job.ID)
	if err != nil {
		return err
	}
	return waiting.wait(ctx, c, run)
}

// wait follows a run to its end. Only success is a nil error.
func (a *app) wait(ctx context.Context, c *client.Client, id carillon.RunID) error {
	run, err := a.follow(ctx, c, id)
	if ctx.Err() != nil {
		fmt.Fprintf(
			a.err,
			"carillon: no longer waiting; %s goes on. See it with \"carillon run %s\", stop it with "+
				"\"carillon cancel %s\".\n",
			id, id, id,
		)
		return ctx.Err()
	}
	if err != nil {
		return err
	}
	verdict := verdictOf(&run.Run)
	if err := a.show(run, func() { fmt.Fprintln(a.err, oneLine(verdict)) }); err != nil {
		return err
	}
	switch {
	case run.State == carillon.StateSucceeded:
		return nil
	case !run.State.Ended(): // the log ended first: the run was handed back, or the server is stopping
		return errors.New(verdict + ": the log has ended, but not the run")
	}
	return errQuiet
}

// verdictOf sums up a run that has ended. After several attempts it gives the time since the due time: the
// duration of the last attempt alone would say little.
func verdictOf(run *carillon.Run) string {
	verdict := fmt.Sprintf("%s %s", run.ID, run.State)
	switch {
	case run.Attempt > 1:
		verdict += fmt.Sprintf(
			" after %d attempts, %s after it was due", run.Attempt, took(run.ID.Due, run.Ended),
		)
	case run.Started != 0:
		verdict += " after " + took(run.Started, run.Ended)
	}
	if run.Reason != "" {
		verdict += ": " + run.Reason
	}
	return verdict
}

// follow prints the output of the run, and says between its lines what the run waits for.
func (a *app) follow(ctx context.Context, c *client.Client, id carillon.RunID) (client.RunDetail, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	type printed struct {
		line carillon.Line
		err  error
	}
	lines := make(chan printed)
	go func() {
		defer close(lines)
		for line, err := range c.Logs(ctx, id, client.LogQuery{Follow: true}) {
			select {
			case lines <- printed{line, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	watch := watcher{a: a}
	look := time.NewTimer(0)
	defer look.Stop()
	for {
		select {
		case p, more := <-lines:
			if !more {
				return c.Run(ctx, id)
			}
			if p.err != nil {
				return client.RunDetail{}, p.err
			}
			a.printFollowed(p.line)
		case <-look.C:
			// An error here says nothing about the run: only the log ends the wait, and the log waits for a
			// server to come back.
			if run, err := c.Run(ctx, id); err == nil {
				watch.tell(&run)
			}
			look.Reset(watch.pause())
		}
	}
}

// printFollowed keeps standard output for the standard output of the run.
func (a *app) printFollowed(line carillon.Line) {
	w := a.err
	if line.Stream == "stdout" && a.forPeople() {
		w = a.out
	}
	fmt.Fprintln(w, a.lineFor(w, line.Text))
}

// watcher says what a run waits for, each reason once.
type watcher struct {
	a        *app
	looks    int
	said     string
	failures int32
	losses   int32
}

// pause is short at first, because most runs end soon, and longer later, so that a wait of hours does not
// burden the server.
func (w *watcher) pause() time.Duration {
	if w.looks < 60 {
		return time.Second
	}
	return 5 * time.Second
}

func (w *watcher) tell(run *client.RunDetail) {
	w.looks++
	if run.State.Ended() {
		return // the verdict follows
	}
	ended, waits := w.ended(&run.Run), w.waits(run)
	w.failures, w.losses = run.Failures, run.Losses
	// By its kind: the text also says how many runs are before it, which changes all the time.
	what := w.said
	if run.WaitsFor != nil && waits != "" {
		what = fmt.Sprint(run.WaitsFor.Kind, run.WaitsFor.Until)
	}
	switch {
	case ended != "" && waits != "":
		ended += "; "
		w.said = what
	case ended != "" && run.State.Held():
		ended += fmt.Sprintf("; attempt %d has begun", run.Attempt)
	case ended == "" && (waits == "" || what == w.said):
		return
	default:
		w.said = what
	}
	fmt.Fprintln(w.a.err, oneLine("carillon: "+ended+waits))
}

// ended says how the latest attempt ended, if one has ended since the last poll.
func (w *watcher) ended(run *carillon.Run) string {
	switch {
	case run.Failures > w.failures && run.Reason != "":
		return fmt.Sprintf("attempt %d failed: %s", run.Failures+run.Losses, run.Reason)
	case run.Failures > w.failures:
		return fmt.Sprintf("attempt %d failed", run.Failures+run.Losses)
	case run.Losses > w.losses && run.Reason != "" && !run.State.Held():
		return fmt.Sprintf("attempt %d ended without a result: %s", run.Failures+run.Losses, run.Reason)
	case run.Losses > w.losses:
		return fmt.Sprintf("attempt %d ended without a result", run.Failures+run.Losses)
	}
	return ""
}

// waits says what a run waits for; "" if it waits for nothing, or only for the moment between due and
// claimed.
func (w *watcher) waits(run *client.RunDetail) string {
	now := carillon.TimeOf(w.a.now())
	wait := run.WaitsFor
	switch {
	case wait == nil || wait.Kind == client.WaitTime && wait.Until <= now:
		return ""
	case wait.Kind == client.WaitTime && run.Attempt > 0:
		return "next attempt at " + w.a.when(wait.Until)
	case wait.Kind == client.WaitTime:
		return fmt.Sprintf("waiting for %s, due %s", run.ID, w.a.when(wait.Until))
	case w.looks <= 2 && run.Wake <= now && wait.Kind != client.WaitResume &&
		wait.Kind != client.WaitWorker:
		return ""
	}
	return wait.Text
}
