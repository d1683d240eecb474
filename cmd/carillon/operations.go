package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/client"
)

func (a *app) operationsCommand() *cobra.Command {
	var p paging
	var states []string
	var wait bool
	cmd := &cobra.Command{
		Use:   "operations [OPERATION]",
		Short: "List operations: actions on many jobs or runs, with their progress",
		Long: `List the operations of the last 30 days, newest first. Given an operation, show it with its progress
and its first errors.

"carillon pause", "resume", "cancel" and "run" begin an operation if flags such as --type choose
their jobs, "carillon dead retry" if flags choose dead letters, and a gate or a queue that opens
begins the release of the runs that it held. The server performs it, also after a restart.`,
		Example: `  carillon operations
  carillon operations --state running
  carillon operations op_0f8j2v5r3c000 --wait
  carillon operations cancel op_0f8j2v5r3c000`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return fmt.Errorf("want one operation, or none for a list; given %q", args)
			}
			return nil
		},
		ValidArgsFunction: a.completeOperations(),
	}
	cmd.RunE = a.reached(func(ctx context.Context, c *client.Client, args []string) error {
		if len(args) == 1 {
			if name := anyGiven(cmd, []string{"state", "limit", "cursor"}); name != "" {
				return usage("--%s is only for the list", name)
			}
			return a.showOperation(ctx, c, args[0], wait)
		}
		if wait {
			return usage("--wait is only for one operation: give its id")
		}
		return a.listOperations(ctx, c, p, states)
	})
	words := make([]string, len(carillon.OperationStates))
	for i, state := range carillon.OperationStates {
		words[i] = string(state)
	}
	cmd.Flags().StringSliceVar(
		&states, "state", nil, "list operations in these `states`, separated by commas: "+
			strings.Join(words, ", "),
	)
	cmd.Flags().BoolVar(&wait, "wait", false, "with an operation: show its progress until it is over")
	p.flags(cmd)
	completeWords(cmd, "state", words...)
	cmd.AddCommand(&cobra.Command{
		Use:   "cancel OPERATION...",
		Short: "Cancel an operation: what it has done stays",
		Long: `Cancel an operation. It stops within a second. What it has done stays as it is. If it is the release
of a gate, the gate is closed again for the runs that still wait.`,
		Example:           `  carillon operations cancel op_0f8j2v5r3c000`,
		Args:              some("running operation, its id"),
		ValidArgsFunction: a.completeOperations(carillon.OperationCounting, carillon.OperationRunning),
		RunE: a.reached(func(ctx context.Context, c *client.Client, args []string) error {
			return a.each(args, func(name string) (any, string, error) {
				id, err := carillon.ParseOperationID(name)
				if err != nil {
					return nil, "", err
				}
				op, err := c.CancelOperation(ctx, id)
				return op, fmt.Sprintf("%s %s: %s", op.ID, op.State, progressOf(&op)), err
			})
		}),
	})
	return cmd
}

func (a *app) completeOperations(states ...carillon.OperationState) cobra.CompletionFunc {
	return a.complete(func(ctx context.Context, c *client.Client) (choices []cobra.Completion) {
		page, _ := c.OperationPage(ctx, states, completions, "")
		for i := range page.Items {
			op := &page.Items[i]
			choices = append(choices, cobra.CompletionWithDesc(
				op.ID.String(), fmt.Sprintf("%s %s, %s", op.Kind, a.thingWords(op), op.State),
			))
		}
		return choices
	})
}

func (a *app) listOperations(ctx context.Context, c *client.Client, p paging, states []string) error {
	var wanted []carillon.OperationState
	for _, state := range states {
		wanted = append(wanted, carillon.OperationState(state))
	}
	list, err := readList(ctx, p,
		func(cursor client.Cursor, size int) (client.Page[carillon.Operation], error) {
			return c.OperationPage(ctx, wanted, size, cursor)
		})
	if err != nil {
		return err
	}
	return showList(a, list, "operations", func(list []carillon.Operation) {
		t := a.table("ID", "KIND", "STATE", "DONE", "FAILED", "BEGAN", "ACTS ON")
		for i := range list {
			op := &list[i]
			t.row(op.ID.String(), string(op.Kind), string(op.State),
				doneOf(op), fmt.Sprint(op.Failed),
				a.ago(op.Created), a.thingWords(op))
		}
		t.end()
	})
}

func (a *app) showOperation(ctx context.Context, c *client.Client, given string, wait bool) error {
	id, err := carillon.ParseOperationID(given)
	if err != nil {
		return err
	}
	if wait {
		return a.awaitOperation(ctx, c, id)
	}
	op, err := c.Operation(ctx, id)
	if err != nil {
		return err
	}
	return a.show(op, func() { a.operationDetail(&op) })
}

func (a *app) operationDetail(op *carillon.Operation) {
	t := a.tableTo(a.out)
	defer t.end()
	t.fact("Operation", op.ID.String())
	t.fact("Kind", string(op.Kind))
	switch {
	case op.Release != nil:
		t.fact("Gate", op.Release.Gate)
	case op.Dead != nil:
		t.fact("Dead letters", a.deadWords(op.Dead))
	default:
		t.fact("Jobs", filterWords(op))
	}
	t.fact("State", string(op.State))
	t.fact("Reason", op.Reason)
	t.fact("Progress", progressOf(op))
	rate := "as many as possible"
	switch {
	case op.Release != nil && op.Release.Rate.Starts > 0:
		rate = op.Release.Rate.String()
	case op.Rate > 0:
		rate = fmt.Sprintf("at most %d a second", op.Rate)
	}
	t.fact("Rate", rate)
	t.fact("Begun by", op.By)
	t.fact("Began", a.when(op.Created))
	if op.Ended != 0 {
		t.fact("Ended", a.when(op.Ended))
		t.fact("Took", took(op.Created, op.Ended))
	} else {
		t.fact("As of", a.when(op.Updated))
	}
	if lines := errorLines(op); len(lines) > 0 {
		t.facts("Errors", lines)
	}
}

// doneOf says on how many things of how many an operation has acted. A release that could not count its runs
// in time has no total.
func doneOf(op *carillon.Operation) string {
	if op.Release != nil && op.Total == 0 {
		return fmt.Sprint(op.Done)
	}
	return fmt.Sprintf("%d of %d", op.Done+op.Skipped, op.Total)
}

// thingWords describes what an operation acts on.
func (a *app) thingWords(op *carillon.Operation) string {
	switch {
	case op.Release != nil:
		return "gate " + op.Release.Gate
	case op.Dead != nil:
		return "dead letters: " + a.deadWords(op.Dead)
	}
	return filterWords(op)
}

// thingOf names one of the things that a kind acts on.
func thingOf(kind carillon.OperationKind) string {
	switch kind {
	case carillon.OperationRelease:
		return "run"
	case carillon.OperationRedrive:
		return "dead letter"
	}
	return "job"
}

// filterWords describes which jobs an operation chooses.
func filterWords(op *carillon.Operation) string {
	f := &op.Filter
	var words []string
	for _, field := range []struct{ name, value string }{
		{"type", f.Type}, {"name", f.Name}, {"owner", f.Owner}, {"queue", f.Queue},
	} {
		if field.value != "" {
			words = append(words, field.name+" "+field.value)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(f.Labels)) {
		words = append(words, "label "+key+"="+f.Labels[key])
	}
	if f.All {
		words = append(words, "all")
	}
	var states []string
	for _, state := range f.States {
		states = append(states, state.String())
	}
	return strings.Join(append(words, strings.Join(states, " or ")), ", ")
}

// progressOf says how far an operation is.
func progressOf(op *carillon.Operation) string {
	thing := thingOf(op.Kind)
	if op.State == carillon.OperationCounting {
		return count(op.Total, thing) + " so far"
	}
	text := fmt.Sprintf("%d of %s %s", op.Done, count(op.Total, thing), doneWord(op.Kind))
	if op.Kind == carillon.OperationRelease && op.Total == 0 { // they were not counted
		text = count(op.Done, thing) + " " + doneWord(op.Kind)
	}
	if op.Failed > 0 {
		text += fmt.Sprintf(", %d failed", op.Failed)
	}
	if op.Skipped > 0 {
		text += fmt.Sprintf(", %d skipped because they had changed", op.Skipped)
	}
	return text
}

func errorLines(op *carillon.Operation) (lines []string) {
	for _, e := range op.Errors {
		lines = append(lines, e.Item+": "+e.Reason)
	}
	if more := op.Failed - len(op.Errors); more > 0 {
		lines = append(lines, fmt.Sprintf("… and %d more", more))
	}
	return lines
}

// verbOf and doneWord name what an operation does to a thing.
func verbOf(kind carillon.OperationKind) string {
	switch kind {
	case carillon.OperationRun:
		return "run now"
	case carillon.OperationRedrive:
		return "retry"
	}
	return string(kind)
}

func doneWord(kind carillon.OperationKind) string {
	switch kind {
	case carillon.OperationPause:
		return "paused"
	case carillon.OperationResume:
		return "resumed"
	case carillon.OperationCancel:
		return "canceled"
	case carillon.OperationRun:
		return "run now"
	case carillon.OperationRelease:
		return "released"
	case carillon.OperationRedrive:
		return "retried"
	}
	return string(kind)
}

func firstUpper(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
