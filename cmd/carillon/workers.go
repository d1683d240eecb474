package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/carillon-run/carillon/client"
)

// memberView is a member as -o json shows it.
type memberView struct {
	ID   string `json:"id"`
	Kind string `json:"kind"`
	Addr string `json:"addr"`
}

func (a *app) workersCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "workers",
		Short: "List the nodes and workers that are alive",
		Example: `  carillon workers
  carillon runs --worker worker_1d0e6f0b5c9a44f2a7b3`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: a.reached(func(ctx context.Context, c *client.Client, _ []string) error {
			members, err := c.Members(ctx)
			if err != nil {
				return err
			}
			views := make([]memberView, len(members))
			for i, m := range members {
				views[i] = memberView(m)
			}
			return a.show(views, func() {
				t := a.table("ID", "KIND", "ADDRESS OR NAME")
				for _, v := range views {
					t.row(v.ID, v.Kind, v.Addr)
				}
				t.end()
			})
		}),
	}
}
