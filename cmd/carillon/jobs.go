package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/client"
)

// jobFilter are the flags of jobs.
type jobFilter struct {
	status, labels              []string
	owner, kind, name, from, to string
	parts                       bool
	paging
}

func (a *app) jobsCommand() *cobra.Command {
	var f jobFilter
	cmd := &cobra.Command{
		Use:   "jobs",
		Short: "List jobs, newest first",
		Long: `List jobs, newest first.

--status takes states of the job (active, paused, finished, canceled) and of its latest run
(pending, running, failed, succeeded). Given job states, it lists jobs in any of them. Given run
states, it lists jobs whose latest run is in any of them. Given both, it lists jobs that match
both.

The jobs of the nodes of workflows are left out. --parts lists them too, and so does
--label carillon/workflow=RUN, for one run of a workflow.`,
		Example: `  carillon jobs
  carillon jobs --status active,failed --owner billing
  carillon jobs --label team=blue --label env=prod --created-from 24h -o json`,
		Args:              none,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: a.reached(func(ctx context.Context, c *client.Client, _ []string) error {
			return a.listJobs(ctx, c, &f)
		}),
	}
	flags := cmd.Flags()
	flags.StringSliceVar(
		&f.status, "status", nil, "list jobs in these `states`, separated by commas",
	)
	flags.StringVar(&f.owner, "owner", "", "list jobs with exactly this `owner`")
	flags.StringVar(&f.kind, "type", "", "list jobs with exactly this `type`")
	flags.StringVar(&f.name, "name", "", "list jobs with exactly this `name`")
	flags.StringArrayVar(
		&f.labels, "label", nil,
		"list jobs with this label, `key=value`; given several times, with all of these labels",
	)
	flags.StringVar(
		&f.from, "created-from", "",
		"list jobs created at or after this `time`; 24h means 24 hours ago",
	)
	flags.StringVar(&f.to, "created-to", "", "list jobs created before this `time`")
	flags.BoolVar(&f.parts, "parts", false, "list the jobs of the nodes of workflows too")
	f.paging.flags(cmd)
	completeWords(cmd, "status", jobStatuses...)
	return cmd
}

var jobStatuses = []string{
	"active", "paused", "finished", "canceled", "pending", "running", "failed", "succeeded",
}

func (a *app) listJobs(ctx context.Context, c *client.Client, f *jobFilter) error {
	q, err := a.jobQuery(f)
	if err != nil {
		return err
	}
	jobs, err := readList(ctx, f.paging,
		func(cursor client.Cursor, size int) (client.Page[client.ListedJob], error) {
			q.Limit = size
			return c.JobPage(ctx, q, cursor)
		})
	if err != nil {
		return err
	}
	return showList(a, jobs, "jobs", a.jobTable)
}

func (a *app) jobQuery(f *jobFilter) (q carillon.JobQuery, err error) {
	q = carillon.JobQuery{Owner: f.owner, Type: f.kind, Name: f.name, Parts: f.parts}
	for _, status := range f.status {
		var state carillon.JobState
		switch {
		case state.UnmarshalText([]byte(status)) == nil:
			q.States = append(q.States, state)
		case slices.Contains(jobStatuses, status):
			q.Latest = append(q.Latest, carillon.LatestState(status))
		default:
			return q, usage(
				"--status: %q is not valid: want one or more of %s", status, strings.Join(jobStatuses, ", "),
			)
		}
	}
	for _, label := range f.labels {
		key, value, ok := strings.Cut(label, "=")
		if !ok || key == "" {
			return q, usage("--label: %q is not valid: want key=value", label)
		}
		q.Labels = append(q.Labels, carillon.Label{Key: key, Value: value})
	}
	if q.CreatedFrom, err = a.instantFlag("created-from", f.from); err != nil {
		return q, err
	}
	q.CreatedTo, err = a.instantFlag("created-to", f.to)
	return q, err
}

func (a *app) jobTable(jobs []client.ListedJob) {
	if a.wide() {
		t := a.table("ID", "NAME", "TYPE", "OWNER", "STATE", "SCHEDULE", "NEXT", "CREATED", "LAST")
		for _, job := range jobs {
			t.row(job.ID.String(), job.Name, job.Type, job.Owner, job.State.String(),
				scheduleShort(&job.Schedule),
				a.nextDue(&job.Job, job.LastRun), a.ago(job.Created), a.lastRun(job.LastRun))
		}
		t.end()
		return
	}
	t := a.table("ID", "NAME", "STATE", "SCHEDULE", "NEXT", "LAST")
	for _, job := range jobs {
		t.row(job.ID.String(), a.cut(job.Name, 30), job.State.String(),
			a.cut(scheduleShort(&job.Schedule), 30), a.nextDue(&job.Job, job.LastRun),
			a.lastRun(job.LastRun))
	}
	t.end()
}

// lastRun says how a job's last run ended, or what the run is doing.
func (a *app) lastRun(run *carillon.Run) string {
	switch {
	case run == nil:
		return "-"
	case run.State.Ended():
		return strings.TrimSuffix(fmt.Sprintf("%s %s: %s", run.State, a.ago(run.Ended), run.Reason), ": ")
	case run.State.Held():
		return fmt.Sprintf("%s for %s", a.stateWord(run), span(a.now().Sub(run.Claimed.Std())))
	}
	return strings.TrimSuffix(
		fmt.Sprintf("%s for attempt %d: %s", a.stateWord(run), run.Attempt+1, run.Reason), ": ",
	)
}

// nextDue is when the job starts its next attempt: the next attempt of its last run; the time of a one-time
// job that has not begun, which can have passed if the run is queued; or the next time of its schedule.
func (a *app) nextDue(job *carillon.Job, last *carillon.Run) string {
	switch {
	case job.State != carillon.JobActive:
		return "-"
	case last != nil && last.State == carillon.StateWaiting:
		return a.ago(last.Wake)
	case last == nil && !job.Schedule.Recurring():
		return a.ago(job.Schedule.At)
	}
	return a.ago(job.Schedule.Next(carillon.TimeOf(a.now())))
}
