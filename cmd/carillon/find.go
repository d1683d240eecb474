package main

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"github.com/spf13/cobra"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/client"
)

// findJob takes an id or a name. A name means the only job of that name that is neither finished nor
// canceled, else the newest job of that name: people use names again and again, and old jobs must not make
// them useless.
func (a *app) findJob(ctx context.Context, c *client.Client, given string) (carillon.JobID, error) {
	if id, err := carillon.ParseJobID(given); err == nil {
		return id, nil
	}
	if _, err := carillon.ParseRunID(given); err == nil {
		return 0, usage("%s is a run; want the id or name of a job", given)
	}
	const shown = 5
	live := carillon.JobQuery{
		Name: given, States: []carillon.JobState{carillon.JobActive, carillon.JobPaused}, Limit: shown + 1,
	}
	jobs, more, err := take(c.Jobs(ctx, live), shown)
	switch {
	case err != nil:
		return 0, err
	case len(jobs) == 1:
		return jobs[0].ID, nil
	case len(jobs) > 1:
		return 0, a.severalNamed(given, jobs, more)
	}
	if jobs, more, err = take(c.Jobs(ctx, carillon.JobQuery{Name: given, Limit: 2}), 1); err != nil {
		return 0, err
	}
	if len(jobs) == 0 {
		return 0, noJobNamed(given)
	}
	if more {
		fmt.Fprintf(a.err,
			"carillon: several jobs were named %q and none is active: taking the newest, %s (%s, created "+
				"%s)\n",
			oneLine(given), jobs[0].ID, jobs[0].State, a.ago(jobs[0].Created))
	}
	return jobs[0].ID, nil
}

func noJobNamed(given string) error {
	for prefix, digits := range map[string]int{"job_": 13, "run_": 23} {
		if strings.HasPrefix(given, prefix) {
			return notFound(
				"no job is named %q, and it is not an id: want %s and %d characters of 0-9 a-z without i l "+
					"o u", given,
				prefix, digits,
			)
		}
	}
	return notFound("no job is named %q", given)
}

// severalNamed lists the jobs to choose from.
func (a *app) severalNamed(name string, jobs []client.ListedJob, more bool) error {
	var text strings.Builder
	t := a.tableTo(&text)
	for _, job := range jobs {
		fmt.Fprintf(
			t.w, "  %s\t%s\t%s\tcreated %s\n", job.ID, job.State, scheduleShort(&job.Schedule),
			a.ago(job.Created),
		)
	}
	t.end()
	lines := strings.Split(strings.TrimSuffix(text.String(), "\n"), "\n")
	if more {
		lines = append(lines, "  …")
	}
	return &noted{
		usage("more than one job named %q is active or paused: give the id of one of them", name), lines,
	}
}

// findRun takes the id of a run; the id or name of a job means its latest run.
func (a *app) findRun(ctx context.Context, c *client.Client, given string) (carillon.RunID, error) {
	if id, err := carillon.ParseRunID(given); err == nil {
		return id, nil
	}
	id, err := a.findJob(ctx, c, given)
	if err != nil {
		return carillon.RunID{}, err
	}
	return latestRun(ctx, c, id)
}

// latestRun is the run that a person means by naming the job: the latest that has begun, else the next one.
// It passes over skipped runs, and planned runs that an edit canceled, which can be in between.
func latestRun(ctx context.Context, c *client.Client, id carillon.JobID) (carillon.RunID, error) {
	const enough = 100
	runs, _, err := take(c.RunsOf(ctx, carillon.RunQuery{Job: id, Limit: enough}), enough)
	if err != nil {
		return carillon.RunID{}, err
	}
	var next carillon.RunID
	for _, run := range runs { // latest due first
		if run.Attempt > 0 {
			return run.ID, nil
		}
		if run.State == carillon.StateWaiting {
			next = run.ID
		}
	}
	if next.IsZero() {
		return next, notFound("%s has no run that has begun or will begin", id)
	}
	return next, nil
}

// take reads up to limit items (0: all), over as many pages as that needs, and says whether there are more.
func take[T any](all iter.Seq2[T, error], limit int) (items []T, more bool, err error) {
	items = []T{} // an empty list is [] in JSON
	for item, err := range all {
		if err != nil {
			return nil, false, err
		}
		if limit > 0 && len(items) == limit {
			return items, true, nil
		}
		items = append(items, item)
	}
	return items, false, nil
}

// instantFlag reads a time, or a duration as a time that long ago.
func (a *app) instantFlag(name, given string) (carillon.Time, error) {
	if given == "" {
		return 0, nil
	}
	if d, err := carillon.ParseDuration(given); err == nil {
		return carillon.TimeOf(a.now().Add(-d.Std())), nil
	}
	t, err := parseInstant(given, a.zone)
	if err != nil {
		return 0, usage(
			"--%s: %q is not valid: %v, or a duration such as 24h, for 24 hours ago", name, given, err,
		)
	}
	return carillon.TimeOf(t), nil
}

// reached is a command that begins by connecting to the server.
func (a *app) reached(
	do func(ctx context.Context, c *client.Client, args []string) error,
) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := a.connect()
		if err != nil {
			return err
		}
		return do(cmd.Context(), c, args)
	}
}
