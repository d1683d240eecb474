package node

import (
	"context"
	"fmt"
	"strings"

	"github.com/carillon-run/carillon/adapter/mysql"
	"github.com/carillon-run/carillon/adapter/postgres"
	"github.com/carillon-run/carillon/adapter/sqlite"
)

// Script returns the schema for the kind of store that a URL names, as SQL that can be applied by hand.
func Script(store string) (string, error) {
	switch scheme, _, _ := strings.Cut(store, ":"); scheme {
	case "postgres", "postgresql":
		return postgres.Script(), nil
	case "mysql", "mariadb":
		return mysql.Script(), nil
	case "sqlite":
		return sqlite.Script(), nil
	}
	return "", fmt.Errorf(
		"store: %q is not valid: want postgres://…, mysql://… or sqlite:PATH", Redact(store),
	)
}

// Migrate brings the schema of a store to what this program needs. `serve` does this by itself; Migrate is
// for users whose servers may not change a schema.
func Migrate(ctx context.Context, store string) error {
	var err error
	var opened interface{ Close() error }
	switch scheme, rest, _ := strings.Cut(store, ":"); scheme {
	case "postgres", "postgresql":
		opened, err = postgres.Open(ctx, store, postgres.Config{})
	case "mysql", "mariadb":
		opened, err = mysql.Open(ctx, store, mysql.Config{})
	case "sqlite":
		path := strings.TrimPrefix(rest, "//")
		if err = private(path); err == nil {
			opened, err = sqlite.Open(path)
		}
	default:
		_, err = Script(store)
		return err
	}
	if err != nil {
		return fmt.Errorf("migrate %s: %w", Redact(store), err)
	}
	return opened.Close()
}
