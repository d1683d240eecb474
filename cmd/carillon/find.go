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

// findJob takes an id, or a name that only one job has.
func findJob(ctx context.Context, c *client.Client, given string) (carillon.JobID, error) {
	if strings.HasPrefix(given, "job_") {
		return carillon.ParseJobID(given)
	}
	if strings.HasPrefix(given, "run_") {
		return 0, usage("%s is a run: want the id or name of a job", given)
	}
	const shown = 3
	jobs, more, err := take(c.Jobs(ctx, carillon.JobQuery{Name: given, Limit: shown + 1}), shown)
	switch {
	case err != nil:
		return 0, err
	case len(jobs) == 0:
		return 0, fmt.Errorf("no job is named %q: %w", given, carillon.ErrNotFound)
	case len(jobs) == 1:
		return jobs[0].ID, nil
	}
	ids := make([]string, len(jobs))
	for i, job := range jobs {
		ids[i] = job.ID.String()
	}
	if more {
		ids = append(ids, "…")
	}
	return 0, usage("more than one job is named %q: give one of the ids %s", given, strings.Join(ids, ", "))
}

// findRun takes the id of a run; that or the name of a job means its latest run.
func findRun(ctx context.Context, c *client.Client, given string) (carillon.RunID, error) {
	if strings.HasPrefix(given, "run_") {
		return carillon.ParseRunID(given)
	}
	id, err := findJob(ctx, c, given)
	if err != nil {
		return carillon.RunID{}, err
	}
	return latestRun(ctx, c, id)
}

// latestRun is the one that a person means who names the job: the latest that has begun, else the one that is next.
// Planned runs that were canceled by an edit, and skipped ones, stand in between and are passed over.
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
		if run.State == carillon.Waiting {
			next = run.ID
		}
	}
	if next.IsZero() {
		return next, fmt.Errorf("%s has no run that has begun or will: %w", id, carillon.ErrNotFound)
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

// pageFor is a page with room for the one item more that tells whether there are any.
func pageFor(limit int) int {
	if limit <= 0 {
		return 1000
	}
	return limit + 1
}

// noteMore keeps a list from being taken for the whole.
func (a *app) noteMore(more bool, limit int) {
	if more {
		fmt.Fprintf(a.err, "carillon: there are more than these %d: --limit sets how many to show, 0 is all\n", limit)
	}
}

// instantFlag reads a time, or a duration as so long ago.
func (a *app) instantFlag(name, given string) (carillon.Time, error) {
	if given == "" {
		return 0, nil
	}
	if d, err := carillon.ParseDuration(given); err == nil {
		return carillon.TimeOf(a.now().Add(-d.Std())), nil
	}
	t, err := parseInstant(given, a.zone)
	if err != nil {
		return 0, usage("--%s: %q is not valid: %v, or a duration such as 24h for so long ago", name, given, err)
	}
	return carillon.TimeOf(t), nil
}

// reached is a command that begins by connecting.
func (a *app) reached(do func(ctx context.Context, c *client.Client, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := a.connect()
		if err != nil {
			return err
		}
		return do(cmd.Context(), c, args)
	}
}
