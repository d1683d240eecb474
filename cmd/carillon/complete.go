package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/client"
)

// Completion asks the server while the user waits for the cursor to move: it must be quick, or offer nothing.
const (
	completeWithin = time.Second
	completions    = 50
)

// complete is a function for cobra that offers the results of find for the first argument, or for each
// argument if there can be several.
func (a *app) complete(
	find func(ctx context.Context, c *client.Client) []cobra.Completion,
) cobra.CompletionFunc {
	return func(
		cmd *cobra.Command, args []string, typed string,
	) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 && !strings.HasSuffix(cmd.Use, "...") {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		c, err := a.connect()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completeWithin)
		defer cancel()
		var fitting []cobra.Completion
		for _, choice := range find(ctx, c) {
			if strings.HasPrefix(choice, typed) {
				fitting = append(fitting, choice)
			}
		}
		return fitting, cobra.ShellCompDirectiveNoFileComp
	}
}

func (a *app) completeJobs(states ...carillon.JobState) cobra.CompletionFunc {
	return a.complete(func(ctx context.Context, c *client.Client) []cobra.Completion {
		return jobChoices(ctx, c, states)
	})
}

func (a *app) completeRuns(states ...carillon.State) cobra.CompletionFunc {
	return a.complete(func(ctx context.Context, c *client.Client) []cobra.Completion {
		return runChoices(ctx, c, states)
	})
}

func (a *app) completeEither() cobra.CompletionFunc {
	return a.complete(func(ctx context.Context, c *client.Client) []cobra.Completion {
		return append(jobChoices(ctx, c, nil), runChoices(ctx, c, nil)...)
	})
}

// One page is enough to choose from, and an error is of no use at the prompt.

func jobChoices(
	ctx context.Context, c *client.Client, states []carillon.JobState,
) (choices []cobra.Completion) {
	page, _ := c.JobPage(ctx, carillon.JobQuery{States: states, Limit: completions}, "")
	for _, job := range page.Items {
		choices = append(choices, cobra.CompletionWithDesc(job.ID.String(), job.Name+", "+job.State.String()))
	}
	return choices
}

func runChoices(ctx context.Context, c *client.Client, states []carillon.State) (choices []cobra.Completion) {
	page, _ := c.RunPage(ctx, carillon.RunQuery{States: states, Limit: completions}, "")
	for _, run := range page.Items {
		choices = append(
			choices, cobra.CompletionWithDesc(run.ID.String(), runName(&run)+", "+run.State.String()),
		)
	}
	return choices
}

// completeWords offers fixed values for a flag.
func completeWords(cmd *cobra.Command, flag string, words ...string) {
	if err := cmd.RegisterFlagCompletionFunc(
		flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp),
	); err != nil {
		panic(err) // the command has no such flag
	}
}
