package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/client"
)

// bulk are the flags with which a command acts on all jobs that match a filter: it begins an operation.
type bulk struct {
	kind   carillon.OperationKind
	filter carillon.JobFilter
	labels []string
	status []string
	keep   bool // of cancel
	manner
}

// manner are the flags that say how an operation is performed.
type manner struct {
	dryRun, yes, noWait bool
	rate                int
}

func (m *manner) flags(f *pflag.FlagSet, things string) {
	f.BoolVar(&m.dryRun, "dry-run", false, "only show which "+things+" would be chosen")
	f.BoolVar(&m.yes, "yes", false, "do not ask before acting on the chosen "+things)
	f.BoolVar(&m.noWait, "no-wait", false, "begin the operation, and do not wait for its end")
	f.IntVar(
		&m.rate, "rate", carillon.DefaultOperationRate,
		"act on at most this `number` of "+things+" a second; 0 means as many as possible",
	)
}

// choosing are the flags that choose jobs, settling the flags that say how.
var (
	choosing = []string{"all", "type", "name", "owner", "queue", "label"}
	settling = []string{"status", "dry-run", "yes", "no-wait", "rate"}
)

func (b *bulk) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&b.filter.All, "all", false, "choose all jobs")
	f.StringVar(&b.filter.Type, "type", "", "choose jobs of this `type`; * stands for any characters")
	f.StringVar(&b.filter.Name, "name", "", "choose jobs with this `name`; * stands for any characters")
	f.StringVar(&b.filter.Owner, "owner", "", "choose jobs with exactly this `owner`")
	f.StringVar(&b.filter.Queue, "queue", "", "choose jobs of exactly this `queue`")
	f.StringArrayVar(
		&b.labels, "label", nil,
		"choose jobs with this label, `key=value`; given several times, with all of these labels",
	)
	f.StringSliceVar(
		&b.status, "status", nil, "choose jobs in these `states`, separated by commas "+statesOf(b.kind),
	)
	b.manner.flags(f, "jobs")
	one := cmd.Args
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		switch chosen := anyGiven(cmd, choosing); {
		case chosen != "" && len(args) > 0:
			return fmt.Errorf(
				"give %q, or flags such as --%s that choose jobs, but not both", args[0], chosen,
			)
		case chosen != "":
			return nil
		}
		if how := anyGiven(cmd, settling); how != "" {
			return fmt.Errorf("--%s is only for flags that choose jobs, such as --type or --all", how)
		}
		return one(cmd, args)
	}
}

// statesOf says which states a kind chooses by itself.
func statesOf(kind carillon.OperationKind) string {
	switch kind {
	case carillon.OperationResume:
		return "(default paused)"
	case carillon.OperationCancel:
		return "(default active and paused)"
	}
	return "(default active)"
}

func anyGiven(cmd *cobra.Command, flags []string) string {
	for _, name := range flags {
		if cmd.Flags().Changed(name) {
			return name
		}
	}
	return ""
}

// chosen says that the user gave flags that choose jobs.
func (b *bulk) chosen(cmd *cobra.Command) bool { return anyGiven(cmd, choosing) != "" }

func (b *bulk) request() (want client.OperationRequest, err error) {
	want = client.OperationRequest{Kind: b.kind, Filter: b.filter, Rate: &b.rate}
	if want.Filter.Labels, err = labelFlags(b.labels); err != nil {
		return want, err
	}
	for _, status := range b.status {
		var state carillon.JobState
		if state.UnmarshalText([]byte(status)) != nil {
			return want, usage(
				"--status: %q is not valid: want one or more of active, paused, finished", status,
			)
		}
		want.Filter.States = append(want.Filter.States, state)
	}
	return want, nil
}

// labelFlags reads --label; nil if there is none.
func labelFlags(given []string) (labels map[string]string, err error) {
	for _, label := range given {
		key, value, ok := strings.Cut(label, "=")
		if !ok || key == "" {
			return nil, usage("--label: %q is not valid: want key=value", label)
		}
		if labels == nil {
			labels = map[string]string{}
		}
		labels[key] = value
	}
	return labels, nil
}

// operate performs the command on all jobs that its flags choose.
func (a *app) operate(ctx context.Context, cmd *cobra.Command, b *bulk) error {
	if name := anyGiven(cmd, []string{"payload", "wait"}); name != "" {
		return usage("--%s is only for a single run", name)
	}
	if err := noneEmpty(cmd, choosing); err != nil {
		return err
	}
	if cmd.Flags().Changed("status") && len(b.status) == 0 {
		return usage("--status: it is empty: want a value; leave the flag out for the default")
	}
	want, err := b.request()
	if err != nil {
		return err
	}
	want.KeepRunning = b.keep
	return a.perform(ctx, want, b.manner)
}

// noneEmpty refuses empty flags: an empty variable of a script must not choose more.
func noneEmpty(cmd *cobra.Command, flags []string) error {
	for _, name := range flags {
		if f := cmd.Flags().Lookup(name); f.Changed && f.Value.String() == "" {
			return usage("--%s: it is empty: want a value; leave the flag out for any", name)
		}
	}
	return nil
}

// perform begins an operation, after it has asked the user, and follows it.
func (a *app) perform(ctx context.Context, want client.OperationRequest, how manner) error {
	asks := a.inTerminal && a.errTerminal
	if !how.dryRun && !how.yes && !asks {
		return usage(
			"give --yes to act on all chosen %ss, or --dry-run to see them: there is no terminal on "+
				"which to ask", thingOf(want.Kind),
		)
	}
	c, err := a.connect()
	if err != nil {
		return err
	}
	if how.dryRun || !how.yes {
		want.DryRun = true
		found, err := c.StartOperation(ctx, want)
		if err != nil {
			return err
		}
		if how.dryRun {
			return a.show(found, func() { a.printDryRun(&found) })
		}
		if sure, err := a.confirm(ctx, &found); !sure || err != nil {
			return err
		}
		want.DryRun = false
	}
	began, err := c.StartOperation(ctx, want)
	if err != nil {
		return err
	}
	if how.noWait {
		return a.done(began.Operation, "%s %s", began.ID, began.State)
	}
	return a.awaitOperation(ctx, c, began.ID)
}

// confirm asks the user.
func (a *app) confirm(ctx context.Context, found *client.OperationAnswer) (bool, error) {
	if found.Total == 0 {
		fmt.Fprintf(a.err, "no %ss match\n", thingOf(found.Kind))
		return false, nil
	}
	a.printSample(a.err, found)
	fmt.Fprintf(a.err, "%s %s? [y/N] ", firstUpper(verbOf(found.Kind)), thingsFound(found))
	line := make(chan string, 1)
	go func() {
		text, _ := bufio.NewReader(a.in).ReadString('\n')
		line <- text
	}()
	select {
	case text := <-line:
		answer := strings.ToLower(strings.TrimSpace(text))
		if answer == "y" || answer == "yes" {
			return true, nil
		}
		fmt.Fprintln(a.err, "carillon: nothing was done")
		return false, errQuiet
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

func thingsFound(found *client.OperationAnswer) string {
	text := count(found.Total, thingOf(found.Kind))
	if found.AtLeast {
		return "at least " + text
	}
	return text
}

// printSample shows some of the jobs or dead letters.
func (a *app) printSample(w io.Writer, found *client.OperationAnswer) {
	t := a.tableTo(w)
	for _, job := range found.Sample {
		fmt.Fprintf(t.w, "  %s\t%s\t%s\t%s\n", job.ID, a.cut(job.Name, 30), job.Type, job.State)
	}
	for _, letter := range found.Letters {
		fmt.Fprintf(
			t.w, "  %s\t%s\t%s\t%s\n", letter.ID, a.cut(letter.Name, 30), letter.Type,
			a.cut(oneLine(letter.Reason), 60),
		)
	}
	t.end()
	if more := found.Total - len(found.Sample) - len(found.Letters); more > 0 {
		fmt.Fprintf(w, "  … and %d more\n", more)
	}
}

func (a *app) printDryRun(found *client.OperationAnswer) {
	fmt.Fprintf(a.out, "%s would be %s\n", thingsFound(found), doneWord(found.Kind))
	a.printSample(a.out, found)
}

// followEvery is how often the command reads the operation that it follows.
const followEvery = 270 * time.Millisecond

// awaitOperation follows an operation to its end. Only an operation that is done, and has failed for nothing,
// is a nil error.
func (a *app) awaitOperation(ctx context.Context, c *client.Client, id carillon.OperationID) error {
	op, err := a.followOperation(ctx, c, id)
	a.clearProgress()
	if ctx.Err() != nil {
		fmt.Fprintf(
			a.err, "carillon: no longer waiting; %s goes on. See it with \"carillon operations %s\", stop "+
				"it with \"carillon operations cancel %s\".\n", id, id, id,
		)
		return ctx.Err()
	}
	if err != nil {
		return err
	}
	if err := a.done(op, "%s %s: %s", id, op.State, progressOf(&op)); err != nil {
		return err
	}
	if a.forPeople() {
		for _, line := range errorLines(&op) {
			fmt.Fprintln(a.err, "carillon: "+oneLine(line))
		}
	}
	if op.State != carillon.OperationDone || op.Failed > 0 {
		return errQuiet
	}
	return nil
}

// followOperation shows the progress until the operation is over. It waits for a server that is away.
func (a *app) followOperation(
	ctx context.Context, c *client.Client, id carillon.OperationID,
) (op carillon.Operation, err error) {
	for {
		op, err = c.Operation(ctx, id)
		var away *client.Unreachable
		switch {
		case errors.As(err, &away) && ctx.Err() == nil:
			if a.errTerminal {
				a.clearProgress()
				fmt.Fprintf(a.rawErr, "%s: the server does not answer; trying again", id)
			}
		case err != nil || op.State.Over():
			return op, err
		case a.errTerminal:
			a.clearProgress()
			fmt.Fprintf(a.rawErr, "%s %s: %s", id, op.State, progressOf(&op))
		}
		select {
		case <-time.After(followEvery):
		case <-ctx.Done():
			return op, ctx.Err()
		}
	}
}
