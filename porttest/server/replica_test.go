package server_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/carillon-run/carillon/porttest/server"
)

// query reads one text from a PostgreSQL server.
func query(t *testing.T, s *server.Server, sql string) (answer string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), s.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if err := conn.QueryRow(t.Context(), sql).Scan(&answer); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return answer
}

func TestAReplicaHasWhatThePrimaryAnsweredAndTakesWritesWhenItIsPromoted(t *testing.T) {
	primary := server.Postgres(t)
	replica := server.Replica(t, primary)
	if err := primary.SetReplicas("*"); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); ; {
		state := query(t, primary, "SELECT coalesce(max(sync_state), 'none') FROM pg_stat_replication")
		if state == "sync" {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the replica is %s, want sync", state)
		}
	}
	const create = "CREATE TABLE kept AS SELECT 'it' AS what"
	conn, err := pgx.Connect(t.Context(), primary.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if _, err := conn.Exec(t.Context(), create); err != nil {
		t.Fatal(err)
	}
	if err := primary.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := replica.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := query(t, replica, "UPDATE kept SET what = what || ' is' RETURNING what"); got != "it is" {
		t.Errorf("got %q", got)
	}
}
