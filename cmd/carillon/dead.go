package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/client"
)

func (a *app) deadCommand() *cobra.Command {
	var p paging
	cmd := &cobra.Command{
		Use:   "dead",
		Short: "List dead letters: runs that failed for good",
		Long:  `Lists the runs that failed for good, latest first, with their last error.`,
		Example: `  carillon dead
  carillon dead retry run_0f8j2v5r3c0001jgq9k2w0m
  carillon dead retry --all`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: a.reached(func(ctx context.Context, c *client.Client, _ []string) error {
			runs, err := readList(ctx, p, func(cursor string, size int) (client.Page[carillon.Run], error) {
				return c.DeadLetterPage(ctx, size, cursor)
			})
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
		Use:   "retry {RUN | --all}",
		Short: "Repeat a dead letter, or all of them, and take it off the list",
		Long: `Adds a new run that repeats the dead letter, and takes that off the list. With --all does so for all that there are;
those that cannot be repeated, because their job was canceled, are named and stay.`,
		Example: `  carillon dead retry run_0f8j2v5r3c0001jgq9k2w0m
  carillon dead retry --all`,
		ValidArgsFunction: a.completeRuns(carillon.Failed),
		RunE: func(cmd *cobra.Command, args []string) error {
			if all == (len(args) == 1) || len(args) > 1 {
				return usage("give the run, or --all for all dead letters")
			}
			return a.reached(func(ctx context.Context, c *client.Client, args []string) error {
				if all {
					return a.retryAll(ctx, c)
				}
				id, err := carillon.ParseRunID(args[0])
				if err != nil {
					return err
				}
				run, err := c.RetryDeadLetter(ctx, id)
				return a.started(ctx, c, run, err, false)
			})(cmd, args)
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "all dead letters")
	return cmd
}

// retryAll first reads the whole list: it grows again while its runs fail anew, and would never end.
func (a *app) retryAll(ctx context.Context, c *client.Client) error {
	dead, _, err := take(c.DeadLetters(ctx, 1000), 0)
	if err != nil {
		return err
	}
	added, refused := []carillon.Run{}, 0
	for _, letter := range dead {
		run, err := c.RetryDeadLetter(ctx, letter.ID)
		switch {
		case err == nil:
			added = append(added, run)
		case errors.Is(err, carillon.ErrNotFound): // somebody else was quicker
		case errors.Is(err, carillon.ErrConflict):
			refused++
			fmt.Fprintf(a.err, "carillon: %s: %s\n", letter.ID, oneLine(err.Error()))
		default:
			return err
		}
	}
	if err := a.done(items[carillon.Run]{added}, "%s retried", count(len(added), "dead letter")); err != nil {
		return err
	}
	if refused > 0 {
		return errQuiet
	}
	return nil
}
