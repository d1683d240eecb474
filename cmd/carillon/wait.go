package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/client"
)

// submitAndWait shows what the job's first run prints, and ends with its verdict. What is not the run's own output goes
// to standard error, so that the caller gets from a pipe what the program itself would have written into it.
func (a *app) submitAndWait(ctx context.Context, c *client.Client, job carillon.Job) error {
	a.submittedBlock(a.err, &job)
	run, err := latestRun(ctx, c, job.ID)
	if err != nil {
		return err
	}
	return a.wait(ctx, c, run)
}

// wait follows a run to its end. Only success is a nil error.
func (a *app) wait(ctx context.Context, c *client.Client, id carillon.RunID) error {
	for line, err := range c.Logs(ctx, id, client.LogQuery{Follow: true}) {
		if err != nil {
			return err
		}
		w := a.err
		if line.Stream == "stdout" && a.forPeople() {
			w = a.out
		}
		fmt.Fprintln(w, a.lineFor(w, line.Text))
	}
	run, err := c.Run(ctx, id)
	if err != nil {
		return err
	}
	verdict := fmt.Sprintf("%s %s", run.ID, run.State)
	if run.Started != 0 {
		verdict += " after " + took(run.Started, run.Ended)
	}
	if run.Reason != "" {
		verdict += ": " + run.Reason
	}
	if err := a.show(run, func() { fmt.Fprintln(a.err, oneLine(verdict)) }); err != nil {
		return err
	}
	switch {
	case run.State == carillon.Succeeded:
		return nil
	case !run.State.Ended(): // the log ended first: the run was handed back, or the server is going
		return errors.New(verdict + ": the log has ended, the run has not")
	}
	return errQuiet
}
