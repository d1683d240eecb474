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
		Short: "List jobs that applications submitted in the database and Carillon refused",
		Long: `List the jobs that Carillon refused although applications had submitted them with carillon.submit()
in their own database transactions. Each comes with the reason, latest first. None of them ran.`,
		Example: `  carillon refused
  carillon refused -o json`,
		Args:              none,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: a.reached(func(ctx context.Context, c *client.Client, _ []string) error {
			refused, err := readList(ctx, p,
				func(cursor client.Cursor, size int) (client.Page[client.Refusal], error) {
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
