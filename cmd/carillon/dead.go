package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/client"
	"github.com/carillon-run/carillon/internal/wire"
)

func (a *app) deadCommand() *cobra.Command {
	var p paging
	cmd := &cobra.Command{
		Use:   "dead",
		Short: "List dead letters: runs that failed for good",
		Long:  `List the runs that failed for good, latest first, with their last error.`,
		Example: `  carillon dead
  carillon dead retry run_0f8j2v5r3c0001jgq9k2w0m
  carillon dead retry --all`,
		Args:              none,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: a.reached(func(ctx context.Context, c *client.Client, _ []string) error {
			runs, err := readList(
				ctx, p,
				func(cursor client.Cursor, size int) (client.Page[carillon.Run], error) {
					return c.DeadLetterPage(ctx, size, cursor)
				},
			)
			if err != nil {
				return err
			}
			return showList(a, runs, "dead letters", func(runs []carillon.Run) { a.runTable(runs, true) })
		}),
	}
	p.flags(cmd)
	cmd.AddCommand(a.deadRetryCommand())
	return cmd
}

func (a *app) deadRetryCommand() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "retry {RUN | JOB | --all}",
		Short: "Repeat a dead letter, or all of them",
		Long: `Add a new run that repeats the dead letter, and take the dead letter off the list. Given a job,
repeat its latest dead letter. With --all, repeat every dead letter.

The new runs of a job start one after the other, unless the overlap policy of the job is allow.

A dead letter stays on the list if its job was canceled, or if 1000 runs of the job wait already.
The exit code is then 1.`,
		Example: `  carillon dead retry run_0f8j2v5r3c0001jgq9k2w0m
  carillon dead retry report
  carillon dead retry --all`,
		ValidArgsFunction: a.completeRuns(carillon.StateFailed),
		RunE: func(cmd *cobra.Command, args []string) error {
			if all == (len(args) == 1) || len(args) > 1 {
				return usage("give a run or a job, or --all for all dead letters")
			}
			return a.reached(func(ctx context.Context, c *client.Client, args []string) error {
				if all {
					return a.retryAll(ctx, c)
				}
				id, err := a.findDeadLetter(ctx, c, args[0])
				if err != nil {
					return err
				}
				run, err := c.RetryDeadLetter(ctx, id)
				return a.started(ctx, c, run, err, false)
			})(cmd, args)
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "repeat all dead letters")
	return cmd
}

// findDeadLetter takes the id of a run; the id or name of a job means its latest dead letter.
func (a *app) findDeadLetter(ctx context.Context, c *client.Client, given string) (carillon.RunID, error) {
	if id, err := carillon.ParseRunID(given); err == nil {
		return id, nil
	}
	job, err := a.findJob(ctx, c, given)
	if err != nil {
		return carillon.RunID{}, err
	}
	for letter, err := range c.DeadLetters(ctx, wire.MaxPage) { // latest first
		if err != nil {
			return carillon.RunID{}, err
		}
		if letter.ID.Job == job {
			return letter.ID, nil
		}
	}
	return carillon.RunID{}, notFound("%s has no dead letter", job)
}

// retryAll first reads the whole list: runs that fail again return to it, so reading and retrying at the same
// time would never end.
func (a *app) retryAll(ctx context.Context, c *client.Client) error {
	dead, _, err := take(c.DeadLetters(ctx, wire.MaxPage), 0)
	if err != nil {
		return err
	}
	added, left := []carillon.Run{}, &leftover{
		reasons: map[carillon.JobID]string{}, count: map[carillon.JobID]int{},
	}
	for _, letter := range dead {
		if left.reasons[letter.ID.Job] != "" { // the server would refuse it for the same reason
			left.count[letter.ID.Job]++
			continue
		}
		run, err := c.RetryDeadLetter(ctx, letter.ID)
		switch {
		case err == nil:
			added = append(added, run)
		case errors.Is(err, carillon.ErrNotFound): // another caller was quicker
		case errors.Is(err, carillon.ErrConflict):
			left.add(letter.ID.Job, err)
		default:
			return err
		}
	}
	text := count(len(added), "dead letter") + " retried"
	if n := left.total(); n > 0 {
		text += fmt.Sprintf(", %d not retried", n)
	}
	if err := a.done(wire.List[carillon.Run]{Items: added}, "%s", text); err != nil || len(left.jobs) == 0 {
		return err
	}
	for _, job := range left.jobs {
		fmt.Fprintf(a.err, "carillon: %s of %s not retried: %s\n",
			count(left.count[job], "dead letter"), job, oneLine(left.reasons[job]))
	}
	return errQuiet
}

// leftover counts the refused dead letters by job: all dead letters of a job are refused for the same reason.
type leftover struct {
	jobs    []carillon.JobID
	reasons map[carillon.JobID]string
	count   map[carillon.JobID]int
}

func (l *leftover) add(job carillon.JobID, reason error) {
	l.jobs = append(l.jobs, job)
	l.reasons[job] = reason.Error()
	l.count[job]++
}

func (l *leftover) total() (n int) {
	for _, of := range l.count {
		n += of
	}
	return n
}
