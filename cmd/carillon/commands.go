package main

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/client"
	"github.com/carillon-run/carillon/internal/wire"
)

// inBulk says in the help of a command what it does if flags choose its jobs.
const inBulk = `

Given flags that choose jobs, such as --type, in place of ids, begin an operation that acts on all
of these jobs, in the background. The command shows how many there are, asks, and waits for the end
of the operation.`

func (a *app) pauseCommand() *cobra.Command {
	b := bulk{kind: carillon.OperationPause}
	cmd := &cobra.Command{
		Use:   "pause JOB...",
		Short: "Pause a job, or many: none of its runs starts until you resume it",
		Long: `Pause a job. A run that has started goes on to its end. Due times that pass while the job is paused
are recorded as skipped.` + inBulk,
		Example: `  carillon pause report
  carillon pause report job_0f8j2v5r3c000
  carillon pause --type 'report.*' --dry-run
  carillon pause --owner ann --label team=blue --rate 50`,
		Args:              some("job, its id or name"),
		ValidArgsFunction: a.completeJobs(carillon.JobActive),
	}
	b.flags(cmd)
	cmd.RunE = a.orInBulk(cmd, &b, func(ctx context.Context, c *client.Client, args []string) error {
		return a.each(args, func(name string) (any, string, error) {
			return a.command(ctx, c, name, c.Pause, "paused")
		})
	})
	return cmd
}

// orInBulk is a command that begins an operation if flags choose its jobs.
func (a *app) orInBulk(
	cmd *cobra.Command, b *bulk, do func(ctx context.Context, c *client.Client, args []string) error,
) func(*cobra.Command, []string) error {
	return func(_ *cobra.Command, args []string) error {
		if b.chosen(cmd) {
			return a.operate(cmd.Context(), cmd, b)
		}
		return a.reached(do)(cmd, args)
	}
}

func (a *app) resumeCommand() *cobra.Command {
	b := bulk{kind: carillon.OperationResume}
	cmd := &cobra.Command{
		Use:   "resume JOB...",
		Short: "Resume a paused job, or many",
		Long: `Resume a paused job with its next due time. A one-time job whose time has passed runs now.` +
			inBulk,
		Example: `  carillon resume report
  carillon resume job_0f8j2v5r3c000
  carillon resume --type 'report.*' --yes`,
		Args:              some("job, its id or name"),
		ValidArgsFunction: a.completeJobs(carillon.JobPaused),
	}
	b.flags(cmd)
	cmd.RunE = a.orInBulk(cmd, &b, func(ctx context.Context, c *client.Client, args []string) error {
		return a.each(args, func(name string) (any, string, error) {
			return a.command(ctx, c, name, c.Resume, "resumed")
		})
	})
	return cmd
}

// command applies one command to one job.
func (a *app) command(ctx context.Context, c *client.Client, name string,
	do func(context.Context, carillon.JobID) (carillon.Job, error), word string,
) (any, string, error) {
	id, err := a.findJob(ctx, c, name)
	if err != nil {
		return nil, "", err
	}
	job, err := do(ctx, id)
	return job, fmt.Sprintf("%s %s", job.ID, word), err
}

// each applies one command to several jobs or runs, one after the other. It goes on after an error, because
// the user named the others as well. The exit code is that of the first error.
func (a *app) each(names []string, do func(name string) (thing any, said string, err error)) error {
	var done []any
	var first error
	for _, name := range names {
		thing, said, err := do(name)
		switch {
		case err != nil && len(names) == 1:
			return err
		case err != nil:
			fmt.Fprintf(a.err, "carillon: %s: %s\n", oneLine(name), oneLine(err.Error()))
			first = cmp.Or(first, err)
			continue
		case a.forPeople():
			fmt.Fprintln(a.out, said)
		}
		done = append(done, thing)
	}
	if !a.forPeople() {
		if len(names) == 1 {
			return a.show(done[0], nil)
		}
		if err := a.show(wire.List[any]{Items: append([]any{}, done...)}, nil); err != nil {
			return err
		}
	}
	if first != nil {
		return &told{first}
	}
	return nil
}

func (a *app) cancelCommand() *cobra.Command {
	b := bulk{kind: carillon.OperationCancel}
	cmd := &cobra.Command{
		Use:   "cancel {JOB | RUN}...",
		Short: "Cancel a job for good, or many, or a single run",
		Long: `Cancel a job and its waiting runs. Carillon also stops the job's running runs; with --keep-running
it lets them go on to their end.

Given a run, cancel only this run. The job and its schedule stay as they are.` + inBulk,
		Example: `  carillon cancel report --keep-running
  carillon cancel job_0f8j2v5r3c000 job_0f8j2v5r3c001
  carillon cancel run_0f8j2v5r3c0001jgq9k2w0m
  carillon cancel --type 'import.*' --keep-running`,
		Args:              some("job or run"),
		ValidArgsFunction: a.completeEither(),
	}
	b.flags(cmd)
	cmd.RunE = a.orInBulk(cmd, &b, func(ctx context.Context, c *client.Client, args []string) error {
		return a.each(args, func(name string) (any, string, error) {
			if run, err := carillon.ParseRunID(name); err == nil {
				return a.cancelRun(ctx, c, run, b.keep)
			}
			cancel := func(ctx context.Context, id carillon.JobID) (carillon.Job, error) {
				return c.Cancel(ctx, id, b.keep)
			}
			return a.command(ctx, c, name, cancel, "canceled")
		})
	})
	cmd.Flags().BoolVar(&b.keep, "keep-running", false, "let running runs go on to their end")
	return cmd
}

func (a *app) cancelRun(
	ctx context.Context, c *client.Client, id carillon.RunID, keep bool,
) (any, string, error) {
	if keep {
		return nil, "", usage("--keep-running is for jobs only: to cancel a run is to stop it")
	}
	run, err := c.CancelRun(ctx, id)
	return run, fmt.Sprintf("%s %s", run.ID, a.stateWord(&run)), err
}

func (a *app) nextCommand() *cobra.Command {
	var n int
	cmd := &cobra.Command{
		Use:   "next JOB",
		Short: "Show the next due times of a job",
		Long: `Show when a job is due next: in the time zone of its schedule (without one, in the local zone), in
UTC, and relative to now. For a paused job, show what would be due if you resumed it now.`,
		Example: `  carillon next report
  carillon next report -n 3 -o json`,
		Args:              one("job, its id or name"),
		ValidArgsFunction: a.completeJobs(carillon.JobActive, carillon.JobPaused),
		RunE: a.reached(func(ctx context.Context, c *client.Client, args []string) error {
			id, err := a.findJob(ctx, c, args[0])
			if err != nil {
				return err
			}
			next, err := c.Next(ctx, id, n)
			if err != nil {
				return err
			}
			return a.show(next, func() { a.printNext(next) })
		}),
	}
	cmd.Flags().IntVarP(&n, "number", "n", 10, "`number` of due times to show")
	return cmd
}

func (a *app) printNext(next client.DueTimes) {
	zone := a.zone
	if next.Timezone != "" {
		if loc, err := time.LoadLocation(next.Timezone); err == nil {
			zone = loc
		}
	}
	times := make([]time.Time, len(next.Items))
	for i, item := range next.Items {
		times[i] = item.Due.Std().In(zone)
	}
	if len(times) == 0 {
		fmt.Fprintln(a.out, "No due time is left.")
		return
	}
	a.printTimes(times)
}
