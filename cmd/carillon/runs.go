package main

import (
	"context"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/client"
)

// runFilter are the flags of runs.
type runFilter struct {
	states           []string
	worker, from, to string
	paging
}

func (a *app) runsCommand() *cobra.Command {
	var f runFilter
	cmd := &cobra.Command{
		Use:   "runs [JOB]",
		Short: "List runs, of one job or of all",
		Long: `List the runs of a job, latest due first.

Without a job, list the runs of all jobs: first the unfinished runs, earliest due first, then the
ended runs, latest end first. Runs that are due in the future are then listed only with --state
waiting.`,
		Example: `  carillon runs
  carillon runs report --limit 5
  carillon runs --state failed --due-from 24h
  carillon runs --state claimed,running -o json`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.completeJobs(),
		RunE: a.reached(func(ctx context.Context, c *client.Client, args []string) error {
			return a.listRuns(ctx, c, &f, args)
		}),
	}
	flags := cmd.Flags()
	flags.StringSliceVar(
		&f.states, "state", nil,
		"list runs in these `states`, separated by commas: "+strings.Join(runStates, ", "),
	)
	flags.StringVar(&f.worker, "worker", "", "list runs that this `worker` performs, or performed last")
	flags.StringVar(
		&f.from, "due-from", "", "list runs due at or after this `time`; 24h means 24 hours ago",
	)
	flags.StringVar(&f.to, "due-to", "", "list runs due before this `time`")
	f.paging.flags(cmd)
	completeWords(cmd, "state", runStates...)
	return cmd
}

var runStates = []string{
	"waiting", "queued", "paused", "claimed", "running", "stopping", "succeeded", "failed", "canceled",
	"skipped",
}

func (a *app) listRuns(ctx context.Context, c *client.Client, f *runFilter, args []string) error {
	q, err := a.runQuery(f)
	if err != nil {
		return err
	}
	if len(args) == 1 {
		if q.Job, err = a.findJob(ctx, c, args[0]); err != nil {
			return err
		}
	}
	page := c.RunPage
	if q.Job != 0 && q.Worker == "" && q.From == 0 && q.To == 0 {
		page = c.RunsOfPage // it also returns planned runs, and tells whether there is such a job
	}
	runs, err := readList(
		ctx, f.paging,
		func(cursor client.Cursor, size int) (client.Page[carillon.Run], error) {
			q.Limit = size
			return page(ctx, q, cursor)
		},
	)
	if err != nil {
		return err
	}
	return showList(a, runs, "runs", func(runs []carillon.Run) { a.runTable(runs, q.Job == 0) })
}

func (a *app) runQuery(f *runFilter) (q carillon.RunQuery, err error) {
	q = carillon.RunQuery{Worker: f.worker}
	for _, text := range f.states {
		var state carillon.State
		status := carillon.Status(text)
		switch {
		case state.UnmarshalText([]byte(text)) == nil:
			q.States = append(q.States, state)
		case status.Within() != nil:
			q.Statuses = append(q.Statuses, status)
		default:
			return q, usage(
				"--state: %q is not valid: want one or more of %s", text, strings.Join(runStates, ", "),
			)
		}
	}
	if q.From, err = a.instantFlag("due-from", f.from); err != nil {
		return q, err
	}
	q.To, err = a.instantFlag("due-to", f.to)
	return q, err
}

// runTable names the job of each run only if the list has runs of several jobs.
func (a *app) runTable(runs []carillon.Run, named bool) {
	header := []string{"ID", "STATE", "ATTEMPT", "DUE", "STARTED", "TOOK", "REASON"}
	if named {
		header = append([]string{"ID", "NAME"}, header[1:]...)
	}
	t := a.table(header...)
	for _, run := range runs {
		cells := []string{
			run.ID.String(), a.stateWord(&run), strconv.Itoa(int(run.Attempt)), a.ago(run.ID.Due),
			a.ago(run.Started),
			took(run.Started, run.Ended), run.Reason,
		}
		if named {
			cells = append([]string{cells[0], a.cut(runName(&run), 30)}, cells[1:]...)
		}
		t.row(cells...)
	}
	t.end()
}

func runName(run *carillon.Run) string {
	if run.About == nil {
		return "-"
	}
	return run.About.Name
}

// stateWord is the state as people name it; for a waiting run it includes what the run waits for.
func (a *app) stateWord(run *carillon.Run) string { return run.Shown(carillon.TimeOf(a.now())) }
