package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/client"
	"github.com/carillon-run/carillon/internal/wire"
)

// deadFlags are the flags that choose dead letters.
type deadFlags struct {
	filter                     carillon.DeadFilter
	job, fingerprint, from, to string
	labels                     []string
}

// choosingDead are their names.
var choosingDead = []string{"job", "type", "owner", "queue", "label", "error", "fingerprint", "from", "to"}

func (f *deadFlags) flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.job, "job", "", "choose dead letters of this `job`, its id or name")
	flags.StringVar(
		&f.filter.Type, "type", "", "choose dead letters of this `type`; * stands for any characters",
	)
	flags.StringVar(&f.filter.Owner, "owner", "", "choose dead letters of jobs of this `owner`")
	flags.StringVar(&f.filter.Queue, "queue", "", "choose dead letters of this `queue`")
	flags.StringArrayVar(
		&f.labels, "label", nil,
		"choose dead letters of jobs with this label, `key=value`; given several times, with all of these",
	)
	flags.StringVar(&f.filter.Error, "error", "", "choose dead letters with this `text` in their reason")
	flags.StringVar(
		&f.fingerprint, "fingerprint", "",
		"choose dead letters of this `group` of errors, see \"carillon dead groups\"",
	)
	flags.StringVar(
		&f.from, "from", "", "choose runs that ended at or after this `time`; 24h means 24 hours ago",
	)
	flags.StringVar(&f.to, "to", "", "choose runs that ended before this `time`")
}

// read returns the filter that the flags give.
func (f *deadFlags) read(ctx context.Context, a *app, c *client.Client, cmd *cobra.Command) (
	filter carillon.DeadFilter, err error,
) {
	if err := noneEmpty(cmd, choosingDead); err != nil {
		return filter, err
	}
	filter = f.filter
	if filter.Labels, err = labelFlags(f.labels); err != nil {
		return filter, err
	}
	if f.fingerprint != "" {
		if filter.Fingerprint, err = carillon.ParseFingerprint(f.fingerprint); err != nil {
			return filter, usage("--fingerprint: %q is not valid: want 16 digits of 0-9 a-f", f.fingerprint)
		}
	}
	if filter.From, err = a.instantFlag("from", f.from); err != nil {
		return filter, err
	}
	if filter.To, err = a.instantFlag("to", f.to); err != nil {
		return filter, err
	}
	if f.job != "" {
		filter.Job, err = a.findJob(ctx, c, f.job)
	}
	return filter, err
}

func (a *app) deadCommand() *cobra.Command {
	var p paging
	var f deadFlags
	cmd := &cobra.Command{
		Use:   "dead",
		Short: "List dead letters: runs that failed for good",
		Long: `List the runs that failed for good, latest first, with their last error. Flags choose some of them.

A dead letter is kept until it is retried or expires.`,
		Example: `  carillon dead
  carillon dead --type 'mail.*' --error "connection refused" --from 24h
  carillon dead groups
  carillon dead show run_0f8j2v5r3c0001jgq9k2w0m
  carillon dead retry run_0f8j2v5r3c0001jgq9k2w0m
  carillon dead retry --fingerprint 0ec676714a9e4c2a --rate 50
  carillon dead export > dead.jsonl`,
		Args:              none,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.RunE = a.reached(func(ctx context.Context, c *client.Client, _ []string) error {
		filter, err := f.read(ctx, a, c, cmd)
		if err != nil {
			return err
		}
		letters, err := readList(
			ctx, p,
			func(cursor client.Cursor, size int) (client.Page[client.DeadLetter], error) {
				return c.DeadLetterPage(ctx, filter, size, cursor)
			},
		)
		if err != nil {
			return err
		}
		return showList(a, letters, "dead letters", a.deadTable)
	})
	f.flags(cmd)
	p.flags(cmd)
	cmd.AddCommand(a.deadGroupsCommand(), a.deadShowCommand(), a.deadRetryCommand(), a.deadExportCommand())
	return cmd
}

func (a *app) deadTable(letters []client.DeadLetter) {
	header := []string{"ID", "NAME", "TYPE", "ATTEMPT", "ENDED", "REASON"}
	if a.wide() {
		header = []string{
			"ID", "NAME", "TYPE", "OWNER", "QUEUE", "ATTEMPT", "ENDED", "EXPIRES", "FINGERPRINT", "REASON",
		}
	}
	t := a.table(header...)
	for i := range letters {
		letter := &letters[i]
		about := cmp.Or(letter.About, &carillon.About{})
		name, attempt := a.cut(runName(&letter.Run), 30), strconv.Itoa(int(letter.Attempt))
		if a.wide() {
			t.row(
				letter.ID.String(), name, about.Type, about.Owner, letter.Queue, attempt, a.ago(letter.Ended),
				a.ago(letter.ExpiresAt), letter.Fingerprint.String(), letter.Reason,
			)
			continue
		}
		t.row(letter.ID.String(), name, a.cut(about.Type, 20), attempt, a.ago(letter.Ended), letter.Reason)
	}
	t.end()
}

func (a *app) deadGroupsCommand() *cobra.Command {
	var ofType string
	most := limit(listed)
	cmd := &cobra.Command{
		Use:   "groups",
		Short: "Group dead letters by their errors",
		Long: `Group the dead letters by their errors, the most frequent first. Errors that differ only in
numbers, ids, quoted text, paths and addresses are one group.

FIRST and LAST are when the error was seen first and last.`,
		Example: `  carillon dead groups
  carillon dead groups --type mail.send
  carillon dead --fingerprint 0ec676714a9e4c2a
  carillon dead retry --fingerprint 0ec676714a9e4c2a`,
		Args:              none,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: a.reached(func(ctx context.Context, c *client.Client, _ []string) error {
			groups, err := c.DeadGroups(ctx, ofType, cmp.Or(int(most), wire.MaxPage))
			if err != nil {
				return err
			}
			return a.show(wire.List[carillon.DeadGroup]{Items: groups}, func() { a.groupTable(groups) })
		}),
	}
	cmd.Flags().StringVar(&ofType, "type", "", "group only dead letters of exactly this `type`")
	cmd.Flags().Var(&most, "limit", "show at most this `number` of groups; 0 means the first 1000")
	return cmd
}

func (a *app) groupTable(groups []carillon.DeadGroup) {
	if len(groups) == 0 {
		fmt.Fprintln(a.err, "no dead letters")
		return
	}
	t := a.table("FINGERPRINT", "COUNT", "FIRST", "LAST", "TYPES", "ERROR")
	for _, g := range groups {
		t.row(
			g.Fingerprint.String(), strconv.Itoa(g.Count), a.ago(g.First), a.ago(g.Last),
			a.cut(strings.Join(g.Types, ", "), 30), cmp.Or(g.Error, "-"),
		)
	}
	t.end()
}

func (a *app) deadShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show {RUN | JOB}",
		Short: "Show everything about a dead letter",
		Long: `Show a dead letter with the definition that its run had, its payload, result and checkpoint, when it
expires, and the last 100 lines of its log. Given a job, show its latest dead letter.`,
		Example: `  carillon dead show run_0f8j2v5r3c0001jgq9k2w0m
  carillon dead show report -o json`,
		Args:              one("dead letter, its run or its job"),
		ValidArgsFunction: a.completeRuns(carillon.StateFailed),
		RunE: a.reached(func(ctx context.Context, c *client.Client, args []string) error {
			id, err := a.findDeadLetter(ctx, c, args[0])
			if err != nil {
				return err
			}
			letter, err := c.DeadLetter(ctx, id)
			if err != nil {
				return err
			}
			return a.show(letter, func() { a.deadDetail(&letter) })
		}),
	}
}

func (a *app) deadDetail(letter *client.DeadLetterDetail) {
	t := a.tableTo(a.out)
	a.runFacts(t, &client.RunDetail{Run: letter.Run}, "")
	t.fact("Group", fmt.Sprintf("%s %s", letter.Fingerprint, letter.Error))
	expires := "never"
	if letter.ExpiresAt != 0 {
		expires = a.when(letter.ExpiresAt)
	}
	t.fact("Expires", expires)
	if def := letter.JobDefinition; def != nil {
		t.fact("Type", def.Type)
		t.fact("Owner", def.Owner)
		t.fact("Labels", pairsText(def.Labels))
		t.facts("Target", targetLines(&def.Target))
		t.fact("Job's payload", payloadText(def.Payload))
		t.fact("Timeout", timeoutText(def.Timeout))
		t.fact("Retry", retryText(&def.Retry))
	}
	t.end()
	a.attemptTable(letter.DeadStory.Attempts)
	if len(letter.Log) == 0 {
		return
	}
	fmt.Fprintln(a.out, "\nThe end of its log:")
	for _, line := range letter.Log {
		if a.printLine(line, false) != nil {
			return
		}
	}
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
	for letter, err := range c.DeadLetters(ctx, carillon.DeadFilter{Job: job}, 1) { // latest first
		return letter.ID, err
	}
	return carillon.RunID{}, notFound("%s has no dead letter", job)
}

// deadWords describes which dead letters a filter chooses.
func (a *app) deadWords(f *carillon.DeadFilter) string {
	var words []string
	job, print, from, to := "", "", "", ""
	if f.Job != 0 {
		job = f.Job.String()
	}
	if f.Fingerprint != 0 {
		print = f.Fingerprint.String()
	}
	if f.From != 0 {
		from = a.stamp(f.From)
	}
	if f.To != 0 {
		to = a.stamp(f.To)
	}
	if f.All {
		words = append(words, "all")
	}
	for _, field := range []struct{ name, value string }{
		{"job", job},
		{"type", f.Type},
		{"owner", f.Owner},
		{"queue", f.Queue},
		{"error", f.Error},
		{"fingerprint", print},
		{"from", from},
		{"to", to},
	} {
		if field.value != "" {
			words = append(words, field.name+" "+field.value)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(f.Labels)) {
		words = append(words, "label "+key+"="+f.Labels[key])
	}
	return strings.Join(words, ", ")
}

func (a *app) deadExportCommand() *cobra.Command {
	var f deadFlags
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Write dead letters as JSON lines",
		Long: `Write the dead letters that the flags choose to standard output, latest first, each as one line of
JSON. Without flags, write all of them. The command reads them in pages, so it can write millions.`,
		Example: `  carillon dead export > dead.jsonl
  carillon dead export --type mail.send --from 24h | jq -r .reason`,
		Args:              none,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.RunE = a.reached(func(ctx context.Context, c *client.Client, _ []string) error {
		filter, err := f.read(ctx, a, c, cmd)
		if err != nil {
			return err
		}
		enc := json.NewEncoder(a.raw)
		enc.SetEscapeHTML(false)
		for letter, err := range c.DeadLetters(ctx, filter, wire.MaxPage) {
			if err != nil {
				return err
			}
			if err := enc.Encode(letter); err != nil {
				return err
			}
		}
		return nil
	})
	f.flags(cmd)
	return cmd
}
