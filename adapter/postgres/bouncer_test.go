package postgres_test

import (
	"net/url"
	"testing"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/adapter/postgres"
	"github.com/carillon-run/carillon/porttest"
	"github.com/carillon-run/carillon/porttest/server"
)

// A pooler hands every transaction to another session: whatever a store leaves behind in one, or expects to find, shows.
func TestStoreBehindAPooler(t *testing.T) {
	u, err := url.Parse(database(t))
	if err != nil {
		t.Fatal(err)
	}
	behind := inDatabase(t, server.PgBouncer(t, sharedServer(t)).URL, u.Path[1:])
	porttest.Store(t, func(t *testing.T) carillon.Store { return emptied(t, behind, postgres.Config{}) })
}
