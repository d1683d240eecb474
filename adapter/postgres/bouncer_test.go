package postgres_test

import (
	"net/url"
	"testing"

	"github.com/carillon-run/carillon/adapter/postgres"
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

func TestAPoolerIsNoticed(t *testing.T) {
	direct, behind := behindPooler(t)
	for url, want := range map[string]bool{direct: true, behind: false} {
		got, err := open(t, url, postgres.Config{}).Direct(t.Context())
		if got != want || err != nil {
			t.Errorf("%s: direct %v, want %v: %v", url, got, want, err)
		}
	}
}
