package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/client"
)

func (a *app) runCommand() *cobra.Command {
	var now, wait bool
	var payload string
	b := bulk{kind: carillon.OperationRun}
	cmd := &cobra.Command{
		Use:   "run {RUN | --now JOB}",
		Short: "Show a run, or run a job now, or many",
		Long: `Show everything about a run, and how each of its attempts ended (the last 20). Given a job, show its
latest run.

With --now, add a run of the job that is due at once. The schedule of the job does not change. The
overlap policy of the job applies to this run as to any other.

With --payload, this run gets the given payload instead of the job's. So does a later retry of this
run.` + inBulk + `
Each job gets one run that is due at once.`,
		Example: `  carillon run run_0f8j2v5r3c0001jgq9k2w0m
  carillon run report
  carillon run --now report --wait
  carillon run --now report --payload '{"month":"2026-03"}'
  carillon run --type 'report.*' --rate 5`,
		Args: one("run, its id or its job"),
	}
	b.flags(cmd)
	cmd.Flags().BoolVar(&now, "now", false, "add a run of the job that is due at once")
	cmd.Flags().BoolVar(&wait, "wait", false, "with --now: show the log, and wait until the run has ended")
	cmd.Flags().StringVar(
		&payload, "payload", "",
		"with --now: `JSON` payload of this run; @file reads it from a file, - from standard input",
	)
	cmd.ValidArgsFunction = a.completeEither()
	cmd.RunE = a.orInBulk(cmd, &b, func(ctx context.Context, c *client.Client, args []string) error {
		switch {
		case now:
			own, err := a.ownPayload(cmd, payload)
			if err != nil {
				return err
			}
			id, err := a.findJob(ctx, c, args[0])
			if err != nil {
				return err
			}
			run, err := c.RunNow(ctx, id, own)
			return a.started(ctx, c, run, err, wait)
		case wait:
			return usage("--wait is only for --now; to follow an existing run use \"carillon logs -f\"")
		case cmd.Flags().Changed("payload"):
			return usage("--payload is only for --now: an existing run keeps its payload")
		}
		id, err := a.findRun(ctx, c, args[0])
		if err != nil {
			return err
		}
		run, err := c.Run(ctx, id)
		if err != nil {
			return err
		}
		attempts, err := a.attempts(ctx, c, &run.Run)
		if err != nil {
			return err
		}
		return a.show(run, func() {
			a.runDetail(&run, a.flowFact(ctx, c, &run.Run))
			a.attemptTable(attempts)
		})
	})
	return cmd
}

// ownPayload is the payload that --payload gives to one run; nil if the flag was not given.
func (a *app) ownPayload(cmd *cobra.Command, given string) (json.RawMessage, error) {
	if !cmd.Flags().Changed("payload") {
		return nil, nil
	}
	payload, err := a.readPayload(given)
	if err != nil {
		return nil, usage("--payload: %q is not valid: %v", shorten(given, 80), err)
	}
	return payload, nil
}

// started reports a run that was added, and waits for it if the user asked for that.
func (a *app) started(ctx context.Context, c *client.Client, run carillon.Run, err error, wait bool) error {
	if err != nil {
		return err
	}
	if wait {
		fmt.Fprintln(a.err, run.ID)
		return a.wait(ctx, c, run.ID)
	}
	return a.done(run, "%s %s", run.ID, a.stateWord(&run))
}

// runDetail prints everything about a run. flow is what it is of a workflow.
func (a *app) runDetail(detail *client.RunDetail, flow string) {
	t := a.tableTo(a.out)
	defer t.end()
	a.runFacts(t, detail, flow)
}

func (a *app) runFacts(t *table, detail *client.RunDetail, flow string) {
	run := &detail.Run
	t.fact("Run", run.ID.String())
	t.fact("Job", strings.TrimPrefix(runName(run)+", "+run.ID.Job.String(), "-, "))
	t.fact("State", a.stateWord(run))
	if strings.HasPrefix(flow, "node ") {
		t.fact("Part of", flow)
	} else {
		t.fact("Nodes", flow)
	}
	if wait := detail.WaitsFor; wait != nil && wait.Kind != client.WaitTime { // the times are shown below
		t.fact("Waits", wait.Text)
	}
	t.fact("Reason", reasonBeside(run.Reason, detail.WaitsFor))
	t.fact("Due", a.when(run.ID.Due))
	if run.Covers != 0 && run.Covers != run.ID.Due {
		t.fact("Stands for", a.when(run.Covers))
	}
	if run.Until != 0 {
		t.fact("Up to", a.when(run.Until))
	}
	if run.State == carillon.StateWaiting && run.Wake > run.ID.Due {
		t.fact("Next attempt", a.when(run.Wake))
	}
	if run.Claimed != 0 {
		t.fact("Claimed", a.lateBy(run))
		t.fact("Started", a.when(run.Started))
	}
	if run.Ended != 0 {
		t.fact("Ended", a.when(run.Ended))
	}
	if run.Started != 0 && run.Ended != 0 {
		text := took(run.Started, run.Ended)
		if run.Attempt > 1 {
			text += ", the last attempt"
		}
		t.fact("Took", text)
	}
	t.fact("Attempts", attemptsText(run))
	t.fact("Worker", run.Worker)
	t.fact("Queue", fmt.Sprintf("%s, priority %d", run.Queue, run.Priority))
	t.fact("Definition", fmt.Sprintf("version %d", run.Version))
	if run.RetryOf != 0 {
		t.fact("Retry of", carillon.RunID{Job: run.ID.Job, Due: run.RetryOf}.String())
	}
	if run.Output != nil {
		t.fact("Payload", ownPayloadText(run.Output.Payload))
		t.fact("Result", payloadText(run.Output.Result))
		t.fact("Checkpoint", payloadText(run.Output.Checkpoint))
	}
}

// reasonBeside is the reason of a run without the part that says what the run waits for.
func reasonBeside(reason string, wait *client.Wait) string {
	if wait == nil {
		return reason
	}
	if rest, same := strings.CutPrefix(reason, wait.Text); same {
		return strings.TrimPrefix(rest, "; ")
	}
	return reason
}

func ownPayloadText(payload json.RawMessage) string {
	if string(payload) == "null" { // no payload, even if the job has one
		return "null"
	}
	return payloadText(payload)
}

// attemptsText says how many attempts there were, and how those that did not succeed ended.
func attemptsText(run *carillon.Run) string {
	var bad []string
	if run.Failures > 0 {
		bad = append(bad, fmt.Sprintf("%d failed", run.Failures))
	}
	if run.Losses > 0 {
		bad = append(bad, fmt.Sprintf("%d without a result", run.Losses))
	}
	text := strconv.Itoa(int(run.Attempt))
	if len(bad) > 0 {
		text += " (" + strings.Join(bad, ", ") + ")"
	}
	return text
}

// lateBy shows the time of the claim, and for a first attempt how long after due it came: users judge a
// scheduler by this figure.
func (a *app) lateBy(run *carillon.Run) string {
	text := a.stamp(run.Claimed)
	if run.Attempt == 1 && run.Claimed >= run.ID.Due {
		text += fmt.Sprintf(" (%s after due)", span(run.Claimed.Sub(run.ID.Due)))
	}
	return text
}

func (a *app) retryCommand() *cobra.Command {
	var wait bool
	cmd := &cobra.Command{
		Use:   "retry RUN",
		Short: "Repeat an ended run, or start the next attempt of a waiting one now",
		Long: `Add a new run that repeats an ended run, however that one ended. The record of the ended run
does not change, but a dead letter leaves the list of dead letters.

If the run waits for its next attempt, start that attempt now instead; a run that waits for a gate
or a limit keeps its place there. Given a job, take its latest run.`,
		Example: `  carillon retry run_0f8j2v5r3c0001jgq9k2w0m
  carillon retry report --wait`,
		Args: one("run, its id or its job"),
		ValidArgsFunction: a.completeRuns(
			carillon.StateFailed, carillon.StateCanceled, carillon.StateSucceeded,
		),
		RunE: a.reached(func(ctx context.Context, c *client.Client, args []string) error {
			id, err := a.findRun(ctx, c, args[0])
			if err != nil {
				return err
			}
			run, err := c.RetryRun(ctx, id)
			if err == nil && run.ID == id && !wait {
				return a.done(run, "%s is tried again now", id)
			}
			return a.started(ctx, c, run, err, wait)
		}),
	}
	cmd.Flags().BoolVar(&wait, "wait", false, "show the log, and wait until the new run has ended")
	return cmd
}
