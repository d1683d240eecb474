package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/carillon-run/carillon/node"
)

const migrateLong = `Bring the schema of a store up to date, or print the SQL that does it.

"carillon serve" does this by itself when it starts, also when several nodes start at once. Use
this command where the account of the servers must not change the schema: run it with an account
that can, or print the SQL and apply it yourself.`

func migrateCommand() *cobra.Command {
	var store string
	var show bool
	cmd := &cobra.Command{
		Use: "migrate", Short: "Bring the schema of a store up to date, or print the SQL", Long: migrateLong,
		Args: none,
		Example: "  carillon migrate --store postgres://carillon@db/jobs\n" +
			"  carillon migrate --store mysql: --print > schema.sql",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if store == "" {
				store = os.Getenv("CARILLON_STORE")
			}
			script, err := node.Script(store)
			if err != nil {
				return usage("%s", err)
			}
			out := cmd.OutOrStdout()
			if show {
				fmt.Fprint(out, script)
				return nil
			}
			if err := node.Migrate(cmd.Context(), store); err != nil {
				return err
			}
			fmt.Fprintf(out, "The schema of %s is up to date.\n", node.Redact(store))
			return nil
		},
	}
	cmd.Flags().StringVar(&store, "store", "", "`URL` of the store; also $CARILLON_STORE")
	cmd.Flags().BoolVar(&show, "print", false, "print the SQL and change nothing")
	return cmd
}
