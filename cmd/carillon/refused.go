package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/carillon-run/carillon/client"
)

func (a *app) refusedCommand() *cobra.Command {
	var p paging
	cmd := &cobra.Command{
		Use:   "refused",
		Short: "List jobs that were submitted inside a database and refused",
		Long: `Lists the jobs that applications submitted with carillon.submit() inside their own database transactions and that were
not valid, latest first, with the reason. Nothing of them ran.`,
		Example: `  carillon refused
  carillon refused -o json`,
		Args:              none,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: a.reached(func(ctx context.Context, c *client.Client, _ []string) error {
			refused, err := readList(ctx, p,
				func(cursor string, size int) (client.Page[client.Refusal], error) {
					return c.RefusedPage(ctx, size, cursor)
				})
			if err != nil {
				return err
			}
			return showList(a, refused, "refused jobs", func(list []client.Refusal) {
				t := a.table("ID", "SUBMITTED", "REASON")
				for _, r := range list {
					t.row(r.ID.String(), a.ago(r.At), r.Reason)
				}
				t.end()
			})
		}),
	}
	p.flags(cmd)
	return cmd
}
