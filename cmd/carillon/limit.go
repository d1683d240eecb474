package main

import (
	"cmp"
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/client"
	"github.com/carillon-run/carillon/internal/wire"
)

func (a *app) limitCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "limit",
		Aliases: []string{"limits"},
		Short:   "Show and set limits of queues, types and namespaces",
		Long: `Show and set how many runs of a queue, of a type or of a whole namespace are performed at the same
time, and how many start in a second, a minute or an hour. These limits come on top of those that
jobs name themselves.`,
		Example: `  carillon limit list
  carillon limit set queue mail --concurrency 10 --rate 10/s
  carillon limit set type report.build --concurrency 2
  carillon limit remove queue mail`,
		RunE: subcommand,
		Args: cobra.ArbitraryArgs,
	}
	cmd.AddCommand(a.limitListCommand(), a.limitSetCommand(), a.limitRemoveCommand())
	return cmd
}

func (a *app) limitListCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the limits that operators set",
		Long: `List the limits of queues, types and namespaces, and who set them. "carillon queue show" has what
waits for them.`,
		Example: `  carillon limit list
  carillon limit list -o json`,
		Args:              none,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: a.reached(func(ctx context.Context, c *client.Client, _ []string) error {
			limits, err := c.Limits(ctx)
			if err != nil {
				return err
			}
			if !a.forPeople() {
				return a.show(wire.List[client.Limit]{Items: limits}, nil)
			}
			return showList(a, client.Page[client.Limit]{Items: limits}, "limits", a.limitTable)
		}),
	}
}

func (a *app) limitTable(limits []client.Limit) {
	t := a.table("OF", "NAME", "CONCURRENCY", "RATE", "BURST", "SET", "BY")
	for i := range limits {
		l := &limits[i]
		t.row(string(l.Of), l.Key, orDash(l.Concurrency), cmp.Or(l.Rate, "-"), orDash(l.Burst),
			a.ago(l.SetAt), cmp.Or(l.SetBy, "-"))
	}
	t.end()
}

func orDash(n int) string {
	if n == 0 {
		return "-"
	}
	return strconv.Itoa(n)
}

// limitKinds are what a limit of operators can be for.
var limitKinds = []string{
	string(carillon.LimitQueue), string(carillon.LimitType), string(carillon.LimitNamespace),
}

// aLimit is for commands that name a limit by what it is for.
func aLimit(_ *cobra.Command, args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("want queue, type or namespace, and its name; given %s",
			count(len(args), "argument"))
	}
	return named(args[1])
}

func completeLimits(
	_ *cobra.Command, args []string, _ string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return limitKinds, cobra.ShellCompDirectiveNoFileComp
}

func (a *app) limitSetCommand() *cobra.Command {
	var l client.Limit
	cmd := &cobra.Command{
		Use:   "set {queue | type | namespace} NAME",
		Short: "Set the limit of a queue, a type or a namespace",
		Long: `Set how many runs are performed at the same time (--concurrency), how many start in a time (--rate),
or both. What is not given is not bounded: a set limit replaces the one before as a whole.

The limit is in force on every node within a second. It counts runs that start from then on. Runs
above it wait, and start in the order of their due times when there is room. If you lower a limit,
running runs go on, and none starts until there is room.`,
		Example: `  carillon limit set queue mail --concurrency 10 --rate 10/s
  carillon limit set type report.build --concurrency 2
  carillon limit set namespace default --rate 5000/h --burst 100`,
		Args:              aLimit,
		ValidArgsFunction: completeLimits,
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, name := range []string{"concurrency", "burst"} {
				if f := cmd.Flags().Lookup(name); f.Changed && f.Value.String() == "0" {
					return usage("--%s: 0 is not valid: want a number above 0; leave it out for none", name)
				}
			}
			l.Of, l.Key = carillon.LimitOf(args[0]), args[1]
			return a.reached(func(ctx context.Context, c *client.Client, _ []string) error {
				set, err := c.SetLimit(ctx, l)
				if err != nil {
					return err
				}
				return a.done(set, "limit of %s %s: %s", set.Of, set.Key, limitShort(&set))
			})(cmd, args)
		},
	}
	cmd.Flags().IntVar(&l.Concurrency, "concurrency", 0, "`number` of runs at the same time")
	cmd.Flags().StringVar(&l.Rate, "rate", "", "number of starts in a `time`: 10/s, 100/m or 5000/h")
	cmd.Flags().IntVar(&l.Burst, "burst", 0, "`number` of starts at once after a pause (default 1)")
	return cmd
}

func (a *app) limitRemoveCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "remove {queue | type | namespace} NAME",
		Short: "Remove a limit; runs that waited for it go on",
		Long: `Remove the limit of a queue, a type or a namespace. Runs that waited for it go on at once, unless
another limit bounds them.`,
		Example:           `  carillon limit remove queue mail`,
		Args:              aLimit,
		ValidArgsFunction: completeLimits,
		RunE: a.reached(func(ctx context.Context, c *client.Client, args []string) error {
			removed, err := c.RemoveLimit(ctx, carillon.LimitOf(args[0]), args[1])
			if err != nil {
				return err
			}
			return a.done(removed, "limit of %s %s removed", removed.Of, removed.Key)
		}),
	}
}
