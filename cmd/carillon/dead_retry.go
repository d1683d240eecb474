package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/client"
)

func (a *app) deadRetryCommand() *cobra.Command {
	var f deadFlags
	var how manner
	var payload string
	cmd := &cobra.Command{
		Use:   "retry {RUN | JOB}",
		Short: "Repeat a dead letter, or many",
		Long: `Add a new run that repeats the dead letter, and take the dead letter off the list. Given a job,
repeat its latest dead letter. With --payload, the new run gets the given payload; the old run
keeps the one that it had.

Flags such as --type choose dead letters instead, and --all chooses all of them. The server retries
these in the background, at the rate of --rate, and the command shows how far it is. A run that
fails again is not retried again. "carillon operations" shows and cancels such operations.

The new runs of a job start one after the other, unless the overlap policy of the job is allow.

A dead letter stays on the list if its job was canceled, or if 1000 runs of the job wait already.
The exit code is then 1.`,
		Example: `  carillon dead retry run_0f8j2v5r3c0001jgq9k2w0m
  carillon dead retry run_0f8j2v5r3c0001jgq9k2w0m --payload '{"month":"2026-03"}'
  carillon dead retry report
  carillon dead retry --error "connection refused" --from 24h --rate 50
  carillon dead retry --all --dry-run`,
		ValidArgsFunction: a.completeRuns(carillon.StateFailed),
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		chosen := anyGiven(cmd, append([]string{"all"}, choosingDead...))
		settled := anyGiven(cmd, []string{"dry-run", "yes", "no-wait", "rate"})
		switch {
		case chosen != "" && len(args) > 0:
			return fmt.Errorf(
				"give %q, or flags such as --%s that choose dead letters, but not both", args[0], chosen,
			)
		case chosen != "" && cmd.Flags().Changed("payload"):
			return errors.New("--payload is only for a single dead letter")
		case chosen == "" && len(args) != 1:
			return errors.New(
				"give a run or a job, or flags that choose dead letters, such as --type or --all",
			)
		case chosen == "" && settled != "":
			return fmt.Errorf(
				"--%s is only for flags that choose dead letters, such as --type or --all", settled,
			)
		}
		return nil
	}
	cmd.RunE = a.reached(func(ctx context.Context, c *client.Client, args []string) error {
		if len(args) == 0 {
			filter, err := f.read(ctx, a, c, cmd)
			if err != nil {
				return err
			}
			return a.perform(ctx, client.OperationRequest{
				Kind: carillon.OperationRedrive, Dead: &filter, Rate: &how.rate,
			}, how)
		}
		own, err := a.ownPayload(cmd, payload)
		if err != nil {
			return err
		}
		id, err := a.findDeadLetter(ctx, c, args[0])
		if err != nil {
			return err
		}
		run, err := c.RetryDeadLetter(ctx, id, own)
		return a.started(ctx, c, run, err, false)
	})
	cmd.Flags().BoolVar(&f.filter.All, "all", false, "choose all dead letters")
	f.flags(cmd)
	how.flags(cmd.Flags(), "dead letters")
	cmd.Flags().StringVar(
		&payload, "payload", "",
		"`JSON` payload of the new run; @file reads it from a file, - from standard input",
	)
	return cmd
}
