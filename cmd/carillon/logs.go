package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/client"
	"github.com/carillon-run/carillon/internal/wire"
)

// logFlags are the flags of logs.
type logFlags struct {
	client.LogQuery
	since      string
	times, raw bool
	noOld      bool // do not show lines that exist already
}

func (a *app) logsCommand() *cobra.Command {
	var f logFlags
	var tailGiven func() bool
	cmd := &cobra.Command{
		Use:   "logs RUN",
		Short: "Show what a run printed",
		Long: `Show what a run printed, oldest line first. Given a job, show its latest run. If the run had
several attempts, a line between two attempts says how the earlier one ended.

With -f, show new lines as they come, until the run has ended. Given a job, go on with its next
runs, each after a line with its id, until the job has no more runs.

On a terminal, control characters are shown as escapes. Colours are not escaped.`,
		Example: `  carillon logs run_0f8j2v5r3c0001jgq9k2w0m
  carillon logs -f report
  carillon logs report --tail 20
  carillon logs report --since 10m
  carillon logs report --attempt 2 --timestamps`,
		Args:              one("run, its id or its job"),
		ValidArgsFunction: a.completeRuns(),
		RunE: a.reached(func(ctx context.Context, c *client.Client, args []string) (err error) {
			if f.Since, err = a.instantFlag("since", f.since); err != nil {
				return err
			}
			if f.Tail < 0 {
				return usage("--tail: %d is not valid: want 0 or more", f.Tail)
			}
			f.noOld = f.Tail == 0 && tailGiven()
			if f.raw {
				a.out, a.terminal = a.raw, false
			}
			return a.logs(ctx, c, args[0], f)
		}),
	}
	cmd.Flags().BoolVarP(
		&f.Follow, "follow", "f", false,
		"show new lines as they come; given a job, also those of its next runs",
	)
	cmd.Flags().IntVar(&f.Attempt, "attempt", 0, "show only lines of the attempt with this `number`")
	cmd.Flags().IntVarP(
		&f.Tail, "tail", "n", 0,
		"show only this `number` of last lines; with -f, 0 means only new lines (default all)",
	)
	tailGiven = func() bool { return cmd.Flags().Changed("tail") }
	cmd.Flags().StringVar(
		&f.since, "since", "",
		"show only lines printed since this `time`; 10m means 10 minutes ago",
	)
	cmd.Flags().BoolVarP(
		&f.times, "timestamps", "t", false,
		"show when each line was printed, and to which stream",
	)
	cmd.Flags().BoolVar(
		&f.raw, "raw", false,
		"do not escape control characters on a terminal; in a file or pipe they are never escaped",
	)
	return cmd
}

func (a *app) logs(ctx context.Context, c *client.Client, given string, f logFlags) error {
	if id, err := carillon.ParseRunID(given); err == nil {
		return a.printLogs(ctx, c, id, f)
	}
	job, err := a.findJob(ctx, c, given)
	if err != nil {
		return err
	}
	run, err := latestRun(ctx, c, job)
	if err != nil {
		return err
	}
	if !f.Follow || f.Attempt != 0 {
		return a.printLogs(ctx, c, run, f)
	}
	return a.followJob(ctx, c, run, f)
}

// nextRunPoll is how often logs -f on a job asks for the next run while none is planned.
const nextRunPoll = 2 * time.Second

// followJob shows the output of a run, and then of the next runs of its job, until there are no more.
func (a *app) followJob(ctx context.Context, c *client.Client, run carillon.RunID, f logFlags) error {
	for {
		if err := a.printLogs(ctx, c, run, f); err != nil {
			return err
		}
		f.Tail, f.noOld = 0, false // the next runs are shown from their beginning
		next, err := nextRun(ctx, c, run)
		for ; err == nil && next.IsZero(); next, err = nextRun(ctx, c, run) {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(nextRunPoll):
			}
		}
		if errors.Is(err, errNoMoreRuns) {
			return nil
		}
		if err != nil {
			return err
		}
		run = next
		if a.forPeople() {
			due := run.Due.Std().In(a.zone).Format("2006-01-02 15:04:05 MST")
			fmt.Fprintln(a.out, a.paint(dim, fmt.Sprintf("--- %s, due %s", run, due)))
		}
	}
}

// errNoMoreRuns says that the job has ended.
var errNoMoreRuns = errors.New("the job has no more runs")

// nextRun is the first run of the job after a given run that has begun or will; zero if none is planned yet.
func nextRun(ctx context.Context, c *client.Client, after carillon.RunID) (next carillon.RunID, err error) {
	const enough = 100
	// The job is read before its runs, so that these include every run that was planned by then.
	job, err := c.Job(ctx, after.Job)
	if err != nil {
		return next, err
	}
	runs, _, err := take(c.RunsOf(ctx, carillon.RunQuery{Job: after.Job, Limit: enough}), enough)
	if err != nil {
		return next, err
	}
	for _, run := range runs { // latest due first
		if run.ID.Due > after.Due && (run.Attempt > 0 || run.State == carillon.StateWaiting) {
			next = run.ID
		}
	}
	if next.IsZero() && (job.State == carillon.JobFinished || job.State == carillon.JobCanceled) {
		return next, errNoMoreRuns
	}
	return next, nil
}

func (a *app) printLogs(ctx context.Context, c *client.Client, id carillon.RunID, f logFlags) error {
	if f.noOld {
		if !f.Follow {
			if _, err := c.Run(ctx, id); err != nil || a.forPeople() {
				return err
			}
			return a.show(wire.List[carillon.Line]{Items: []carillon.Line{}}, nil)
		}
		last := f.LogQuery
		last.Tail, last.Follow = 1, false
		for line, err := range c.Logs(ctx, id, last) {
			if err != nil {
				return err
			}
			f.After = &line
		}
	}
	lines := c.Logs(ctx, id, f.LogQuery)
	if !a.forPeople() && !f.Follow {
		all, _, err := take(lines, 0)
		if err != nil {
			return err
		}
		return a.show(wire.List[carillon.Line]{Items: all}, nil)
	}
	printed := false
	for line, err := range lines {
		if err != nil {
			return err
		}
		if err := a.printLine(line, f.times); err != nil {
			return err
		}
		printed = true
	}
	if !printed && !f.Follow && a.errTerminal { // an empty screen would leave the user in doubt
		fmt.Fprintf(a.err, "%s has printed nothing that can be shown\n", id)
	}
	return nil
}

// printLine shows a line at once. As JSON each line is one object; as YAML the lines form one list that
// grows.
func (a *app) printLine(line carillon.Line, times bool) error {
	switch a.format {
	case "json":
		enc := json.NewEncoder(a.out)
		enc.SetEscapeHTML(false)
		return enc.Encode(line)
	case "yaml":
		return a.show([]carillon.Line{line}, nil)
	}
	text := a.lineFor(a.out, line.Text)
	if line.Stream == "carillon" {
		text = a.paint(yellow, text)
	}
	if times {
		at := line.At.Std().In(a.zone).Format("2006-01-02 15:04:05.000 MST")
		text = fmt.Sprintf("%s %-8s %s", a.paint(dim, at), line.Stream, text)
	}
	_, err := fmt.Fprintln(a.out, text)
	return err
}

// lineFor is a line that a job printed, in the form that goes to w.
func (a *app) lineFor(w io.Writer, text string) string {
	if _, terminal := w.(*safeTerminal); terminal {
		return endColours(text)
	}
	return text
}
