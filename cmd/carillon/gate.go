package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/client"
	"github.com/carillon-run/carillon/internal/wire"
)

func (a *app) gateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "gate",
		Aliases: []string{"gates"},
		Short:   "Stop the runs of jobs that match, and let them go on",
		Long: `Close a gate to stop the runs of all jobs that match, now and from now on: due runs wait until the
gate opens (hold), or are recorded as skipped (drop). A run by the clock, a manual run, a retry and
a repeated run all come to the gate. It is closed on every node within a second, over restarts too.`,
		Example: `  carillon gate close --type 'report.*' --reason maintenance --expires 2h
  carillon gate list
  carillon gate open gate_0f8j2v5r3c --rate 5000/s`,
		RunE: subcommand,
		Args: cobra.ArbitraryArgs,
	}
	cmd.AddCommand(a.gateCloseCommand(), a.gateOpenCommand(), a.gateListCommand(), a.gateShowCommand())
	return cmd
}

// closing are the flags of commands that close a gate.
type closing struct {
	reason, expires string
	running         string
}

func (f *closing) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.reason, "reason", "", "why, in a few `words`; each run that it stops shows it")
	cmd.Flags().StringVar(&f.expires, "expires", "", "`when` it opens by itself: after a time such as 2h, "+
		"or at a time such as \"2026-03-29 02:30\" (default never)")
	cmd.Flags().StringVar(&f.running, "running", "keep",
		"what happens to runs that have started: `keep` or stop")
}

func (f *closing) until() (carillon.Time, error) {
	if f.expires == "" {
		return 0, nil
	}
	if d, err := time.ParseDuration(f.expires); err == nil {
		return carillon.Now().Add(d), nil
	}
	at, err := parseInstant(f.expires, time.Local)
	if err != nil {
		return 0, usage(
			"--expires: %q is not valid: want a time such as 2h or \"2026-03-29 02:30\"", f.expires,
		)
	}
	return carillon.Time(at.UnixMilli()), nil
}

func (a *app) gateCloseCommand() *cobra.Command {
	var want client.GateRequest
	var labels []string
	var how closing
	var mode string
	cmd := &cobra.Command{
		Use:   "close",
		Short: "Close a gate for jobs that match",
		Long: `Close a gate for the jobs that match all given flags. With --mode hold their due runs wait until the
gate opens, and then leave in the order of their due times. Of a schedule one run waits; the misfire
policy of the job decides about the times that pass meanwhile. With --mode drop each due run is
recorded as skipped, and schedules go on.

Runs that have started go on, unless you give --running stop: then they are canceled.`,
		Example: `  carillon gate close --type 'report.*' --reason maintenance --expires 2h
  carillon gate close --owner ann --label tier=free --mode drop --running stop
  carillon gate close --all --dry-run`,
		Args:              none,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, name := range []string{"type", "queue", "owner"} { // an empty variable of a script
				if f := cmd.Flags().Lookup(name); f.Changed && f.Value.String() == "" {
					return usage("--%s: it is empty: want a value; leave the flag out for any", name)
				}
			}
			if anyGiven(cmd, []string{"all", "type", "queue", "owner", "label"}) == "" {
				return usage("want flags that match jobs: --type, --queue, --owner, --label, or --all for " +
					"all jobs")
			}
			for _, label := range labels {
				key, value, ok := strings.Cut(label, "=")
				if !ok || key == "" {
					return usage("--label: %q is not valid: want key=value", label)
				}
				if want.Match.Labels == nil {
					want.Match.Labels = map[string]string{}
				}
				want.Match.Labels[key] = value
			}
			var err error
			if want.Expires, err = how.until(); err != nil {
				return err
			}
			want.Mode, want.Reason = carillon.GateMode(mode), how.reason
			want.Running = carillon.GateRunning(how.running)
			return a.reached(func(ctx context.Context, c *client.Client, _ []string) error {
				gate, err := c.CloseGate(ctx, want)
				if err != nil {
					return err
				}
				if want.DryRun {
					return a.show(gate, func() { a.printEffect(&gate) })
				}
				return a.done(gate, "gate %s closed for %s", gate.ID, matchWords(&gate.Match))
			})(cmd, args)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&want.Match.All, "all", false, "match all jobs")
	f.StringVar(&want.Match.Type, "type", "", "match jobs of this `type`; * stands for any characters")
	f.StringVar(&want.Match.Queue, "queue", "", "match jobs of exactly this `queue`")
	f.StringVar(&want.Match.Owner, "owner", "", "match jobs with exactly this `owner`")
	f.StringArrayVar(&labels, "label", nil,
		"match jobs with this label, `key=value`; given several times, with all of these labels")
	f.StringVar(&mode, "mode", "hold", "what happens to due runs: `hold` or drop")
	f.BoolVar(&want.DryRun, "dry-run", false, "only show what the gate would stop")
	how.flags(cmd)
	return cmd
}

// printEffect shows what a gate would stop.
func (a *app) printEffect(g *client.Gate) {
	e := g.Would
	fmt.Fprintf(a.out, "a gate for %s would stop\n", matchWords(&g.Match))
	t := a.tableTo(a.out)
	defer t.end()
	row := func(n int, atLeast bool, what string) {
		number := strconv.Itoa(n)
		if atLeast {
			number = "at least " + number
		}
		fmt.Fprintf(t.w, "  %s\t%s\n", number, what)
	}
	row(e.Waiting, e.WaitingAtLeast, "due runs that wait now")
	row(e.Hourly, e.HourlyAtLeast, "runs of schedules in the next hour")
	if g.Running == carillon.GateStop {
		row(e.Running, e.RunningAtLeast, "running runs, which would be canceled")
	} else {
		row(e.Running, e.RunningAtLeast, "running runs match too, and would go on")
	}
}

// matchWords says which jobs a gate matches.
func matchWords(m *carillon.GateMatch) string {
	var parts []string
	for _, part := range []struct{ word, value string }{
		{"type", m.Type}, {"queue", m.Queue}, {"owner", m.Owner}, {"namespace", m.Namespace},
	} {
		if part.value != "" {
			parts = append(parts, part.word+" "+part.value)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(m.Labels)) {
		parts = append(parts, "label "+key+"="+m.Labels[key])
	}
	if len(parts) == 0 {
		return "all jobs"
	}
	return strings.Join(parts, ", ")
}

func (a *app) gateOpenCommand() *cobra.Command {
	var how client.OpenRequest
	cmd := &cobra.Command{
		Use:   "open GATE",
		Short: "Open a gate: the runs that it holds leave",
		Long: `Open a gate. The runs that it holds leave in the order of their due times, as fast as it goes or by
a rate. Their release is an operation: "carillon operations" shows its progress, and if you cancel
it, the gate is closed again for the runs that still wait. After the last run the gate is gone. To
change the rate of a gate that opens, open it again.`,
		Example: `  carillon gate open gate_0f8j2v5r3c --dry-run
  carillon gate open gate_0f8j2v5r3c
  carillon gate open gate_0f8j2v5r3c --rate 5000/s`,
		Args:              aGate,
		ValidArgsFunction: a.completeGates(),
		RunE: a.reached(func(ctx context.Context, c *client.Client, args []string) error {
			gate, err := c.OpenGate(ctx, args[0], how)
			if err != nil {
				return err
			}
			return a.opened(&gate, "gate "+gate.ID+" opens")
		}),
	}
	openFlags(cmd, &how)
	return cmd
}

// openFlags are the flags of commands that open a gate.
func openFlags(cmd *cobra.Command, how *client.OpenRequest) {
	cmd.Flags().StringVar(&how.Rate, "rate", "",
		"number of held runs that leave in a `time`: 5000/s, 100/m or 10/h (default as fast as it goes)")
	cmd.Flags().BoolVar(&how.DryRun, "dry-run", false, "only show how many runs would leave")
}

// opened shows what a command has done that opens a gate, or would do.
func (a *app) opened(g *client.Gate, what string) error {
	if n := g.WouldRelease; n != nil {
		return a.show(g, func() { fmt.Fprintf(a.out, "%s would leave gate %s\n", count(*n, "run"), g.ID) })
	}
	what += rateWords(g)
	if g.Operation != 0 {
		what += " (operation " + g.Operation.String() + ")"
	}
	return a.done(*g, "%s", what)
}

func rateWords(g *client.Gate) string {
	if g.Rate.Starts == 0 {
		return ""
	}
	return ", held runs leave at " + g.Rate.String()
}

func (a *app) gateListCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List closed gates, and those that runs are leaving",
		Long: `List the gates that are closed, and those that are open while runs that they held leave. HELD is how
many runs wait for a gate. A gate named queue/NAME pauses that queue.`,
		Example: `  carillon gate list
  carillon gate list -o json`,
		Args:              none,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: a.reached(func(ctx context.Context, c *client.Client, _ []string) error {
			gates, err := c.Gates(ctx)
			if err != nil {
				return err
			}
			if !a.forPeople() {
				return a.show(wire.List[client.Gate]{Items: gates}, nil)
			}
			return showList(a, client.Page[client.Gate]{Items: gates}, "gates", a.gateTable)
		}),
	}
}

func (a *app) gateTable(gates []client.Gate) {
	t := a.table("ID", "STATE", "MODE", "HELD", "CLOSED", "BY", "EXPIRES", "JOBS", "REASON")
	for i := range gates {
		g := &gates[i]
		expires := "-"
		if g.Expires != 0 {
			expires = a.when(g.Expires)
		}
		t.row(g.ID, string(g.State), string(g.Mode), strconv.Itoa(held(g)), a.ago(g.At), dash(g.By), expires,
			a.cut(matchWords(&g.Match), 40), dash(a.cut(g.Reason, 40)))
	}
	t.end()
}

func held(g *client.Gate) int {
	if g.Held == nil {
		return 0
	}
	return *g.Held
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func (a *app) gateShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show GATE",
		Short: "Show a gate, and how many runs wait for it",
		Long: `Show which jobs a gate matches, who closed it and why, and how many runs wait for it. A gate that is
open, and that no run waits for, is gone.`,
		Example: `  carillon gate show gate_0f8j2v5r3c
  carillon gate show queue/mail -o json`,
		Args:              aGate,
		ValidArgsFunction: a.completeGates(),
		RunE: a.reached(func(ctx context.Context, c *client.Client, args []string) error {
			gate, err := c.Gate(ctx, args[0])
			if err != nil {
				return err
			}
			return a.show(gate, func() { a.printGate(&gate) })
		}),
	}
}

func (a *app) printGate(g *client.Gate) {
	t := a.tableTo(a.out)
	defer t.end()
	t.fact("ID", g.ID)
	t.fact("State", string(g.State)+rateWords(g))
	t.fact("Jobs", matchWords(&g.Match))
	t.fact("Mode", string(g.Mode))
	t.fact("Running", string(g.Running))
	t.fact("Reason", dash(g.Reason))
	t.fact("Closed", strings.TrimPrefix(a.closedBy(g), ", "))
	if g.Expires != 0 {
		t.fact("Expires", a.when(g.Expires))
	}
	if g.Opened != 0 {
		t.fact("Opened", "at "+a.when(g.Opened)+by(g.OpenedBy))
	}
	if g.Operation != 0 {
		t.fact("Operation", g.Operation.String())
	}
	t.fact("Held", strconv.Itoa(held(g)))
}

// closedBy says who closed a gate, and when; "" without a gate.
func (a *app) closedBy(g *client.Gate) string {
	if g == nil {
		return ""
	}
	return ", at " + a.when(g.At) + by(g.By)
}

func by(who string) string {
	if who == "" {
		return ""
	}
	return " by " + who
}

// aGate is for commands that take exactly one gate.
func aGate(cmd *cobra.Command, args []string) error {
	if err := one("gate")(cmd, args); err != nil {
		return err
	}
	if !carillon.IsGateID(args[0]) {
		return fmt.Errorf(
			"%q is not valid: want the id of a gate, as \"carillon gate list\" shows it", args[0],
		)
	}
	return nil
}

func (a *app) completeGates() cobra.CompletionFunc {
	return a.complete(func(ctx context.Context, c *client.Client) (choices []cobra.Completion) {
		gates, _ := c.Gates(ctx)
		for i := range gates {
			choices = append(choices, gates[i].ID)
		}
		return choices
	})
}
