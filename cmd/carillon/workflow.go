package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/client"
)

func (a *app) workflowCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "workflow",
		Aliases: []string{"workflows"},
		Short:   "Show, follow and steer the runs of workflows",
		Long: `Show how far a run of a workflow is, follow it live, send signals to it, and retry, skip or resume
what failed. A workflow is a job: submit it with "carillon submit -f", cancel it with
"carillon cancel". Where a run is wanted, the id or name of the workflow's job means its latest run.`,
		Example: `  carillon submit -f nightly.yaml
  carillon workflow show nightly-load -f
  carillon workflow signal nightly-load approve --payload '{"who":"ann"}'
  carillon workflow retry nightly-load load`,
		RunE: subcommand,
		Args: cobra.ArbitraryArgs,
	}
	cmd.AddCommand(
		a.workflowShowCommand(), a.workflowSignalCommand(), a.workflowResumeCommand(),
		a.workflowNodeCommand(
			"retry", "Begin a node once more that failed or was canceled",
			`Begin a node of a workflow once more that failed or was canceled, while the workflow goes on. Nodes
that were skipped because of it are decided about again. If the workflow has ended, resume it.`,
			"begins once more",
			func(c *client.Client) steer { return c.RetryNode },
		),
		a.workflowNodeCommand(
			"skip", "Let those that follow a node go on as if it had succeeded",
			`Let the nodes that follow a node go on as if it had succeeded. The node has not begun, or it did
not succeed; to skip a node that goes on, cancel its run first.`,
			"skipped",
			func(c *client.Client) steer { return c.SkipNode },
		),
	)
	return cmd
}

func (a *app) workflowShowCommand() *cobra.Command {
	var follow, all bool
	cmd := &cobra.Command{
		Use:   "show RUN",
		Short: "Draw a run of a workflow, and follow it",
		Long: `Draw the graph of a workflow with the state of each node, how long it took, its run and what it
waits for. Nodes that follow each other are below each other; where several follow, each begins a
branch; a node that joins branches is below them.

With -f, follow the run until it has ended: on a terminal the graph is drawn over and over, else
each change is one line. The exit code is then 0 only if the run succeeded. Ctrl-C ends the
command, not the run.

Of a workflow with more than 200 nodes, or than a terminal has lines, a list is shown: nodes that
failed first, then active ones. --all draws the whole graph.

With -o json, all nodes are printed; with -f, a line of JSON for each node that changed.`,
		Example: `  carillon workflow show nightly-load
  carillon workflow show run_0f8j2v5r3c0001jgq9k2w0m -f`,
		Args:              one("run of a workflow, its id or its job"),
		ValidArgsFunction: a.completeWorkflows(),
	}
	show := a.reached(func(ctx context.Context, c *client.Client, args []string) error {
		id, err := a.findFlow(ctx, c, args[0])
		switch {
		case err != nil:
			return err
		case follow:
			return a.followFlow(ctx, c, id)
		}
		return a.showFlow(ctx, c, id, all)
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if follow && all {
			return usage("give -f or --all, not both: -f shows what a terminal has room for")
		}
		return show(cmd, args)
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "show it live, until the run has ended")
	cmd.Flags().BoolVar(&all, "all", false, "draw all nodes, however many there are; not for -f")
	return cmd
}

func (a *app) workflowSignalCommand() *cobra.Command {
	var payload string
	cmd := &cobra.Command{
		Use:   "signal RUN NAME",
		Short: "Send a signal to a run of a workflow, such as an approval",
		Long: `Send a signal to a run of a workflow. The node that waits for it succeeds, with the payload as its
result. A signal can come before its node waits, and it can be sent once.`,
		Example: `  carillon workflow signal nightly-load approve
  carillon workflow signal run_0f8j2v5r3c0001jgq9k2w0m approve --payload '{"who":"ann"}'`,
		Args: two("run of a workflow", "name of a signal"),
		ValidArgsFunction: a.completeSecond(func(node *client.Node) (string, bool) {
			return node.Signal, node.Signal != "" && !node.State.Ended()
		}),
	}
	cmd.Flags().StringVar(
		&payload, "payload", "",
		"`JSON` that is the result of the node that waits; @file reads it from a file, - from standard input",
	)
	cmd.RunE = a.reached(func(ctx context.Context, c *client.Client, args []string) error {
		own, err := a.ownPayload(cmd, payload)
		if err != nil {
			return err
		}
		id, err := a.findFlow(ctx, c, args[0])
		if err != nil {
			return err
		}
		run, err := c.Signal(ctx, id, args[1], own)
		if err != nil {
			return err
		}
		return a.done(run, "signal %s sent to %s", args[1], id)
	})
	return cmd
}

func (a *app) workflowResumeCommand() *cobra.Command {
	var follow bool
	cmd := &cobra.Command{
		Use:   "resume RUN",
		Short: "Go on with a workflow that failed, where it failed",
		Long: `Add a run of a workflow that begins where one that did not succeed ended. Nodes that succeeded are
not run again, and their results are used. "carillon retry" begins from the beginning.`,
		Example: `  carillon workflow resume nightly-load
  carillon workflow resume run_0f8j2v5r3c0001jgq9k2w0m -f`,
		Args:              one("run of a workflow, its id or its job"),
		ValidArgsFunction: a.completeWorkflows(carillon.StateFailed, carillon.StateCanceled),
		RunE: a.reached(func(ctx context.Context, c *client.Client, args []string) error {
			id, err := a.findFlow(ctx, c, args[0])
			if err != nil {
				return err
			}
			run, err := c.ResumeRun(ctx, id)
			if err != nil {
				return err
			}
			if follow {
				return a.followFlow(ctx, c, run.ID)
			}
			return a.done(run, "%s resumes %s", run.ID, id)
		}),
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "show the new run live, until it has ended")
	return cmd
}

// steer is a call about a node of a run.
type steer func(ctx context.Context, id carillon.RunID, node string) (carillon.Run, error)

func (a *app) workflowNodeCommand(
	verb, short, long, said string, call func(*client.Client) steer,
) *cobra.Command {
	return &cobra.Command{
		Use:     verb + " RUN NODE",
		Short:   short,
		Long:    long,
		Example: "  carillon workflow " + verb + " nightly-load load",
		Args:    two("run of a workflow", "name of a node"),
		ValidArgsFunction: a.completeSecond(func(node *client.Node) (string, bool) {
			failed := node.State == carillon.NodeFailed || node.State == carillon.NodeCanceled
			return node.Name, failed || verb == "skip" && node.State == carillon.NodePending
		}),
		RunE: a.reached(func(ctx context.Context, c *client.Client, args []string) error {
			id, err := a.findFlow(ctx, c, args[0])
			if err != nil {
				return err
			}
			run, err := call(c)(ctx, id, args[1])
			if err != nil {
				return err
			}
			return a.done(run, "%s of %s %s", args[1], id, said)
		}),
	}
}

// findFlow is findRun, also for the run of a node: that means the run of the workflow.
func (a *app) findFlow(ctx context.Context, c *client.Client, given string) (carillon.RunID, error) {
	id, err := a.findRun(ctx, c, given)
	if err != nil {
		return id, err
	}
	// The definition of a workflow can be large, and is not needed.
	if _, err := c.Workflow(ctx, id); !errors.Is(err, carillon.ErrConflict) {
		return id, err
	}
	job, err := c.Job(ctx, id.Job)
	if err != nil {
		return id, err
	}
	if part, is := job.Part(); is {
		return part.Run, nil
	}
	return id, usage("%s is a run of %s, which is no workflow", id, job.ID)
}

// completeWorkflows offers the jobs of workflows, and their runs.
func (a *app) completeWorkflows(states ...carillon.State) cobra.CompletionFunc {
	return a.complete(func(ctx context.Context, c *client.Client) []cobra.Completion {
		return flowChoices(ctx, c, states)
	})
}

func flowChoices(
	ctx context.Context, c *client.Client, states []carillon.State,
) (choices []cobra.Completion) {
	page, _ := c.RunPage(ctx, carillon.RunQuery{States: states, Limit: completions}, "")
	for _, run := range page.Items {
		if run.About != nil && run.About.Type == carillon.KindWorkflow {
			choices = append(choices, cobra.CompletionWithDesc(
				run.ID.String(), runName(&run)+", "+run.State.String(),
			))
		}
	}
	return choices
}

// completeSecond offers runs for the first argument, and for the second what the nodes of that run offer.
func (a *app) completeSecond(offer func(node *client.Node) (string, bool)) cobra.CompletionFunc {
	return func(
		cmd *cobra.Command, args []string, typed string,
	) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) != 1 {
			return a.completeWorkflows()(cmd, args, typed)
		}
		nodes := a.complete(func(ctx context.Context, c *client.Client) (choices []cobra.Completion) {
			id, err := a.findFlow(ctx, c, args[0])
			if err != nil {
				return nil
			}
			page, _ := c.NodePage(ctx, id, client.NodeQuery{Limit: completions}, "")
			for i := range page.Items {
				if word, is := offer(&page.Items[i]); is {
					desc := page.Items[i].Name + ", " + page.Items[i].State.String()
					choices = append(choices, cobra.CompletionWithDesc(word, desc))
				}
			}
			return choices
		})
		return nodes(cmd, nil, typed)
	}
}

// flowFact is what the run is of a workflow: how far it is, or of which run it is a part. Empty: nothing.
func (a *app) flowFact(ctx context.Context, c *client.Client, run *carillon.Run) string {
	flow, err := c.Workflow(ctx, run.ID)
	switch {
	case err == nil:
		return countsText(flow.Nodes, flow.Counts)
	case !errors.Is(err, carillon.ErrConflict): // it says nothing about the run
		return ""
	}
	job, err := c.Job(ctx, run.ID.Job)
	if part, is := job.Part(); err == nil && is {
		return fmt.Sprintf("node %s of %s", job.Name, part.Run)
	}
	return ""
}
