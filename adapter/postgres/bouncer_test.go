package postgres_test

import (
	"net/url"
	"testing"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/adapter/postgres"
	"github.com/carillon-run/carillon/porttest"
	"github.com/carillon-run/carillon/porttest/server"
)

// behindPooler is the URL of an empty database, and the one by which a pooler in front of it is asked.
func behindPooler(t *testing.T) (direct, behind string) {
	t.Helper()
	direct = database(t)
	u, err := url.Parse(direct)
	if err != nil {
		t.Fatal(err)
	}
	return direct, inDatabase(t, server.PgBouncer(t, sharedServer(t)).URL, u.Path[1:])
}

// A pooler hands every transaction to another session: whatever a store leaves behind in one, or expects to find, shows.
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
