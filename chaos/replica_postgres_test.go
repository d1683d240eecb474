package chaos

import (
	"net"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/carillon-run/carillon/porttest/server"
)

type postgresPair struct{ primary, replica *server.Server }

// replicaOfPostgres starts a replica that reads from the address of the stream.
func replicaOfPostgres(
	t *testing.T, primary *server.Server, stream string, synchronous bool,
) (*server.Server, pair) {
	t.Helper()
	_, port, _ := net.SplitHostPort(stream)
	p := postgresPair{primary: primary}
	p.replica = server.Replica(
		t, primary, "max_connections=600", "primary_conninfo=host=127.0.0.1 user=carillon port="+port,
	)
	if synchronous {
		if err := primary.SetReplicas("*"); err != nil {
			t.Fatal(err)
		}
		poll(t, t.Context(), "synchronous replication", func() bool {
			return p.ask(t, "SELECT coalesce(max(sync_state), 'none') FROM pg_stat_replication") == "sync"
		})
	}
	return p.replica, p
}

func (p postgresPair) caughtUp(t *testing.T) {
	t.Helper()
	now := p.ask(t, "SELECT pg_current_wal_lsn()::text")
	poll(t, t.Context(), "the replica to catch up", func() bool {
		return p.ask(
			t, "SELECT coalesce(bool_or(flush_lsn >= $1::text::pg_lsn), false)::text FROM pg_stat_replication", now,
		) == "true"
	})
}

func (p postgresPair) promote(t *testing.T) {
	t.Helper()
	if err := p.replica.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// ask reads one text from the primary.
func (p postgresPair) ask(t *testing.T, sql string, args ...any) (answer string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), p.primary.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if err := conn.QueryRow(t.Context(), sql, args...).Scan(&answer); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return answer
}
