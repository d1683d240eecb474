package postgres_test

import (
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/adapter/postgres"
	"github.com/carillon-run/carillon/porttest/server"
)

func TestAReplicaKnowsHowFarItIsBehind(t *testing.T) {
	primary := server.Postgres(t)
	store := open(t, primary.URL, postgres.Config{})
	replica := server.Replica(t, primary)
	behind := open(t, replica.URL, postgres.Config{KeepSchema: true})
	lag := func(of *postgres.Store) time.Duration {
		lag, err := of.Lag(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return lag
	}
	until := func(what string, is func() bool) {
		t.Helper()
		for deadline := time.Now().Add(2 * time.Minute); !is(); {
			if time.Now().After(deadline) {
				t.Fatalf("not within two minutes: %s", what)
			}
		}
	}
	coordinator, member := postgres.NewCoordinator(store), carillon.Member{ID: "a", Kind: carillon.MemberNode}
	if err := coordinator.Join(t.Context(), []carillon.Member{member}); err != nil {
		t.Fatal(err)
	}
	seen := postgres.NewCoordinator(behind)
	until("the session is there", func() bool {
		members, _, err := seen.Members(t.Context(), carillon.MemberQuery{})
		return err == nil && len(members) == 1
	})
	if now := lag(behind); now > 5*time.Second {
		t.Errorf("it is %s behind", now)
	}
	execute(t, replica.URL, `SELECT pg_wal_replay_pause()`)
	until("it falls behind", func() bool { return lag(behind) > 500*time.Millisecond })
	if now := lag(store); now != 0 {
		t.Errorf("the primary is %s behind", now)
	}
	if said, err := coordinator.Beat(t.Context(), []carillon.Beat{{ID: "a"}}); err != nil ||
		said[0] != carillon.StandingProlonged {
		t.Fatal(said, err)
	}
	stale := lag(behind)
	execute(t, replica.URL, `SELECT pg_wal_replay_resume()`)
	until("it catches up", func() bool { return lag(behind) < stale })
}
