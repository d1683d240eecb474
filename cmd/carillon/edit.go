package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/client"
)

func (a *app) editCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "edit JOB [flags] [-- PROGRAM [ARG...]]",
		Short: "Change some fields of a job",
		Long: `Change the fields of a job for which you give a flag. All other fields stay as they are. Runs that
have not begun use the new definition; a run that has begun keeps the old one.

--label, --needs, --env and --header add an entry, or replace the one with the same key. "--label
key-" removes an entry. --at, --after, --cron or --every replaces the one that the job had. An empty
--starts-at, --ends-at, --max-runs or --tz removes that field.

A time without an offset is in the zone of --tz; without --tz, in the zone of the job.`,
		Example: `  carillon edit report --cron "0 4 * * MON-FRI"
  carillon edit job_0f8j2v5r3c000 --priority 9 --label team=blue --label old-
  carillon edit report --env LEVEL=debug -- /opt/report --verbose`,
		Args: func(cmd *cobra.Command, args []string) error {
			before := len(args)
			if dash := cmd.ArgsLenAtDash(); dash >= 0 {
				before = dash
			}
			return one("job, its id or name, before a program after --")(cmd, args[:before])
		},
		ValidArgsFunction: a.completeJobs(),
	}
	var late bool
	def := a.definitionFlags(cmd, true)
	lateFlag(cmd, &late)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		given := def.given(args[1:])
		if len(given) == 0 {
			return usage("nothing to change: give at least one flag, or a program after --")
		}
		return a.reached(func(ctx context.Context, c *client.Client, args []string) error {
			return a.edit(ctx, c, args[0], given, late)
		})(cmd, args)
	}
	return cmd
}

func (a *app) edit(ctx context.Context, c *client.Client, name string, given doc, late bool) error {
	id, err := a.findJob(ctx, c, name)
	if err != nil {
		return err
	}
	was, err := c.Job(ctx, id)
	if err != nil {
		return err
	}
	if err := a.resolveTimes(given, &was.Schedule); err != nil {
		return err
	}
	if err := a.refuseLate(given, late); err != nil {
		return err
	}
	changes, err := changesTo(was.Definition, given)
	if err != nil {
		return err
	}
	// With the version, because parts of the changes were read from the job: without it they would undo an
	// edit made in between.
	job, err := c.Edit(ctx, id, changes, was.Version)
	if err != nil {
		return err
	}
	if !a.forPeople() {
		return a.show(job, nil)
	}
	next, err := c.Next(ctx, id, 1)
	if err != nil {
		return err
	}
	a.edited(was.Definition, &job, next.Items)
	return nil
}

// edited prints which fields changed, and when the job is due next.
func (a *app) edited(was carillon.Definition, job *carillon.Job, next []client.DueTime) {
	fmt.Fprintf(a.out, "%s edited: version %d\n", job.ID, job.Version)
	lines := changed(was, job.Definition)
	if len(lines) == 0 {
		fmt.Fprintln(a.out, "  nothing is different from before")
	}
	for _, line := range lines {
		fmt.Fprintln(a.out, "  "+oneLine(line))
	}
	if len(next) > 0 {
		fmt.Fprintln(a.out, "  next due "+a.whenIn(next[0].Due, a.zoneOf(&job.Schedule)))
	}
}

// changesTo completes the fields that the API replaces as a whole with the values that the job has in them.
func changesTo(was carillon.Definition, given doc) (client.Changes, error) {
	text, err := json.Marshal(was)
	if err != nil {
		return nil, err
	}
	var present map[string]any
	if err := json.Unmarshal(text, &present); err != nil {
		return nil, err
	}
	changes := client.Changes{}
	for field, value := range given {
		change, nested := value.(doc)
		switch {
		case field == "schedule":
			value = merged(without(present[field], change, whenFields), change)
		case field == "target":
			value = mergedTarget(present[field], change)
		case (field == "labels" || field == "needs") && nested:
			value = merged(present[field], change)
		}
		changes[field] = value
	}
	return changes, nil
}

// Alternatives of which a job has exactly one: a new one replaces the old one.
var (
	whenFields    = []string{"at", "after", "cron", "every"}
	commandFields = []string{"argv", "shell"}
)

// without drops the alternative that the changes replace, and the timezone if the new one is not cron.
func without(present any, change doc, alternatives []string) any {
	object, _ := present.(map[string]any)
	for _, given := range alternatives {
		if change[given] == nil {
			continue
		}
		for _, old := range alternatives {
			delete(object, old)
		}
		if given != "cron" {
			delete(object, "timezone")
		}
	}
	return object
}

// mergedTarget keeps the fields of the target if its kind stays the same, and begins a new target if not.
func mergedTarget(present any, change doc) doc {
	kept, _ := present.(map[string]any)
	target := doc{}
	for kind, value := range change {
		target[kind] = merged(without(kept[kind], value.(doc), commandFields), value.(doc))
	}
	return target
}

// merged is the present object with the changes applied, at every depth; nil removes a field.
func merged(present any, change doc) doc {
	result := doc{}
	object, _ := present.(map[string]any)
	for field, value := range object {
		result[field] = value
	}
	for field, value := range change {
		nested, ok := value.(doc)
		switch {
		case value == nil:
			delete(result, field)
		case ok:
			result[field] = merged(result[field], nested)
		default:
			result[field] = value
		}
	}
	return result
}
