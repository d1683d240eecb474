package main

import (
	"cmp"
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/carillon-run/carillon/client"
	"github.com/carillon-run/carillon/internal/wire"
)

func (a *app) namespaceCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "namespace",
		Aliases: []string{"namespaces"},
		Short:   "Show namespaces, and set their weights",
		Long: `Show what operators set for a namespace. Set how many places of each queue a namespace gets while
other namespaces have due runs there too. "carillon limit set namespace" bounds its runs.

The server shows and sets the namespace of the token, and no other one.`,
		Example: `  carillon namespace list
  carillon namespace set default --weight 3`,
		RunE: subcommand,
		Args: cobra.ArbitraryArgs,
	}
	cmd.AddCommand(a.namespaceListCommand(), a.namespaceShowCommand(), a.namespaceSetCommand())
	return cmd
}

func (a *app) namespaceListCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the namespaces of the token",
		Long:  `List the namespaces of the token, which is one, with its weight and its limit.`,
		Example: `  carillon namespace list
  carillon namespace list -o json`,
		Args:              none,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: a.reached(func(ctx context.Context, c *client.Client, _ []string) error {
			namespaces, err := c.Namespaces(ctx)
			if err != nil {
				return err
			}
			if !a.forPeople() {
				return a.show(wire.List[client.Namespace]{Items: namespaces}, nil)
			}
			list := client.Page[client.Namespace]{Items: namespaces}
			return showList(a, list, "namespaces", a.namespaceTable)
		}),
	}
}

func (a *app) namespaceTable(namespaces []client.Namespace) {
	t := a.table("NAME", "WEIGHT", "LIMIT")
	for i := range namespaces {
		n := &namespaces[i]
		t.row(n.Name, strconv.Itoa(n.Weight), cmp.Or(limitShort(n.Limit), "-"))
	}
	t.end()
}

func (a *app) namespaceShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show NAMESPACE",
		Short: "Show the weight and the limit of a namespace",
		Long:  `Show the weight and the limit of a namespace, and who set them and when.`,
		Example: `  carillon namespace show default
  carillon namespace show default -o json`,
		Args:              aNamespace,
		ValidArgsFunction: a.completeNamespaces(),
		RunE: a.reached(func(ctx context.Context, c *client.Client, args []string) error {
			namespace, err := c.Namespace(ctx, args[0])
			if err != nil {
				return err
			}
			return a.show(namespace, func() { a.printNamespace(&namespace) })
		}),
	}
}

func (a *app) printNamespace(n *client.Namespace) {
	t := a.tableTo(a.out)
	defer t.end()
	t.fact("Name", n.Name)
	t.fact("Weight", strconv.Itoa(n.Weight)+a.setBy(n.SetBy, n.SetAt))
	t.fact("Limit", a.limitFact(n.Limit))
}

func (a *app) namespaceSetCommand() *cobra.Command {
	var weight int
	cmd := &cobra.Command{
		Use:   "set NAMESPACE",
		Short: "Set the weight of a namespace",
		Long: `Set how many places of a queue a namespace gets for each one of a namespace with weight 1, while
both have due runs of the same priority there. The default is 1, the most 100; 1 removes the
setting. The weight is in force on every node within a second.

The namespace must be that of the token.`,
		Example:           `  carillon namespace set default --weight 3`,
		Args:              aNamespace,
		ValidArgsFunction: a.completeNamespaces(),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !cmd.Flags().Changed("weight") {
				return usage("want something to set: --weight")
			}
			return a.reached(func(ctx context.Context, c *client.Client, args []string) error {
				set, err := c.SetNamespace(ctx, args[0], weight)
				if err != nil {
					return err
				}
				return a.done(set, "namespace %s has weight %d", set.Name, set.Weight)
			})(cmd, args)
		},
	}
	cmd.Flags().IntVar(
		&weight, "weight", 1, "`number` of places for each one of a namespace with weight 1, 1 to 100",
	)
	return cmd
}

// aNamespace is for commands that take exactly one namespace.
func aNamespace(cmd *cobra.Command, args []string) error {
	if err := one("namespace")(cmd, args); err != nil {
		return err
	}
	return named(args[0])
}

func (a *app) completeNamespaces() cobra.CompletionFunc {
	return a.complete(func(ctx context.Context, c *client.Client) (choices []cobra.Completion) {
		namespaces, _ := c.Namespaces(ctx)
		for i := range namespaces {
			choices = append(choices, namespaces[i].Name)
		}
		return choices
	})
}
