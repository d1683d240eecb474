package node

import (
	"context"
	"fmt"
	"strings"

	"github.com/carillon-run/carillon/adapter/mysql"
	"github.com/carillon-run/carillon/adapter/postgres"
	"github.com/carillon-run/carillon/adapter/sqlite"
)

// Migration is one step of a store's schema.
type Migration struct {
	Name string
	SQL  string
}

// Migrations are all steps of the schema for the kind of store that a URL names, first things first.
func Migrations(store string) (all []Migration, err error) {
	switch scheme, _, _ := strings.Cut(store, ":"); scheme {
	case "postgres", "postgresql":
		for _, m := range postgres.Migrations() {
			all = append(all, Migration{m.Name, m.SQL})
		}
	case "mysql", "mariadb":
		for _, m := range mysql.Migrations() {
			all = append(all, Migration{m.Name, m.SQL})
		}
	case "sqlite":
		for _, m := range sqlite.Migrations() {
			all = append(all, Migration{m.Name, m.SQL})
		}
	default:
		return nil, fmt.Errorf("store: %q is not valid: want postgres://…, mysql://… or sqlite:PATH", Redact(store))
	}
	return all, nil
}

// Migrate brings the schema of a store to what this program needs. `serve` does so by itself; this is for those whose
// servers may not change a schema.
func Migrate(ctx context.Context, store string) error {
	var err error
	var opened interface{ Close() error }
	switch scheme, rest, _ := strings.Cut(store, ":"); scheme {
	case "postgres", "postgresql":
		opened, err = postgres.Open(ctx, store, postgres.Config{})
	case "mysql", "mariadb":
		opened, err = mysql.Open(ctx, store, mysql.Config{})
	case "sqlite":
		opened, err = sqlite.Open(strings.TrimPrefix(rest, "//"))
	default:
		_, err = Migrations(store)
		return err
	}
	if err != nil {
		return fmt.Errorf("migrate %s: %w", Redact(store), err)
	}
	return opened.Close()
}
