package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/carillon-run/carillon/client"
)

func (a *app) refusedCommand() *cobra.Command {
	var limit int
	cmd := &cobra.Command{
		Use:   "refused",
		Short: "List jobs that were submitted inside a database and refused",
		Long: `Lists the jobs that applications submitted with carillon.submit() inside their own database transactions and that were
not valid, latest first, with the reason. Nothing of them ran.`,
		Example: `  carillon refused
  carillon refused -o json`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: a.reached(func(ctx context.Context, c *client.Client, _ []string) error {
			list, more, err := take(c.Refused(ctx, pageFor(limit)), limit)
			if err != nil {
				return err
			}
			defer a.noteMore(more, limit)
			return a.show(list, func() {
				t := a.table("ID", "SUBMITTED", "REASON")
				for _, r := range list {
					t.row(r.ID.String(), a.ago(r.At), shorten(r.Reason, 120))
				}
				t.end()
			})
		}),
	}
	cmd.Flags().IntVar(&limit, "limit", listed, "at most so many; 0 is all")
	return cmd
}
