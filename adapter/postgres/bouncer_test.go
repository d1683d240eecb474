package postgres_test

import (
	"net/url"
	"testing"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/adapter/postgres"
	"github.com/carillon-run/carillon/porttest"
	"github.com/carillon-run/carillon/porttest/server"
)

// behindPooler returns the URL of an empty database, and the URL of the same database behind a pooler.
func behindPooler(t *testing.T) (direct, behind string) {
	t.Helper()
	direct = database(t)
	u, err := url.Parse(direct)
	if err != nil {
		t.Fatal(err)
	}
	return direct, inDatabase(t, server.PgBouncer(t, sharedServer(t)).URL, u.Path[1:])
}

// A pooler gives every transaction to another session, so the suite notices what a store leaves behind in a
// session, or expects to find there.
func TestStoreBehindAPooler(t *testing.T) {
	_, behind := behindPooler(t)
	porttest.Store(t, func(t *testing.T) carillon.Store { return emptied(t, behind, postgres.Config{}) })
}

func TestAPoolerIsNoticed(t *testing.T) {
	direct, behind := behindPooler(t)
	for url, want := range map[string]bool{direct: true, behind: false} {
		got, err := open(t, url, postgres.Config{}).Direct(t.Context())
		if got != want || err != nil {
			t.Errorf("%s: direct %v, want %v: %v", url, got, want, err)
		}
	}
}
