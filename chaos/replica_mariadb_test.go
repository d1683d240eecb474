package chaos

import (
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/url"
	"testing"

	"github.com/carillon-run/carillon/porttest/server"
)

type mariaPair struct{ primary, replica *sql.DB }

// replicaOfMariaDB starts a replica that reads from the address of the stream. It is empty at first, and
// reads the binary log of the primary from its beginning.
func replicaOfMariaDB(
	t *testing.T, primary *server.Server, stream string, synchronous bool,
) (*server.Server, pair) {
	t.Helper()
	s := server.MariaDB(t, "server-id=2", "read-only=1", "max-connections=600")
	p := mariaPair{connectTo(t, primary), connectTo(t, s)}
	host, port, _ := net.SplitHostPort(stream)
	if synchronous {
		setGlobal(t, p.replica, "rpl_semi_sync_slave_enabled=ON")
	}
	execute(t, p.replica, fmt.Sprintf(
		"CHANGE MASTER TO MASTER_HOST='%s', MASTER_PORT=%s, MASTER_USER='root', MASTER_USE_GTID=slave_pos", host, port,
	))
	execute(t, p.replica, "START SLAVE")
	if synchronous {
		// The replica has a commit before the primary shows it to others. Without a replica the primary waits
		// for ever; by default it would go on alone after ten seconds.
		setGlobal(t, p.primary, "rpl_semi_sync_master_wait_point=AFTER_SYNC")
		setGlobal(t, p.primary, "rpl_semi_sync_master_timeout=3600000")
		setGlobal(t, p.primary, "rpl_semi_sync_master_enabled=ON")
		poll(t, t.Context(), "synchronous replication", func() bool {
			return statusOf(t, p.primary, "Rpl_semi_sync_master_clients") == "1" &&
				statusOf(t, p.primary, "Rpl_semi_sync_master_status") == "ON"
		})
	}
	return s, p
}

func (p mariaPair) caughtUp(t *testing.T) {
	t.Helper()
	p.apply(t, readText(t, p.primary, "SELECT @@gtid_binlog_pos"))
}

func (p mariaPair) promote(t *testing.T) {
	t.Helper()
	execute(t, p.replica, "STOP SLAVE IO_THREAD")
	received := replicaStatus(t, p.replica)["Gtid_IO_Pos"]
	p.apply(t, received)
	execute(t, p.replica, "STOP SLAVE")
	execute(t, p.replica, "RESET SLAVE ALL")
	setGlobal(t, p.replica, "read_only=0")
}

// apply waits until the replica has applied the binary log up to a position.
func (p mariaPair) apply(t *testing.T, position string) {
	t.Helper()
	poll(t, t.Context(), "the replica to apply "+position, func() bool {
		return readText(t, p.replica, "SELECT MASTER_GTID_WAIT(?, 1)", position) == "0"
	})
}

func connectTo(t *testing.T, s *server.Server) *sql.DB {
	t.Helper()
	at, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	db, err := openMariaDB(at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func execute(t *testing.T, db *sql.DB, statement string) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func setGlobal(t *testing.T, db *sql.DB, setting string) {
	t.Helper()
	execute(t, db, "SET GLOBAL "+setting)
}

// readText reads one text.
func readText(t *testing.T, db *sql.DB, query string, args ...any) (answer string) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), query, args...).Scan(&answer); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return answer
}

// statusOf reads one of the figures that a server keeps of itself.
func statusOf(t *testing.T, db *sql.DB, name string) string {
	t.Helper()
	return readText(
		t, db, "SELECT variable_value FROM information_schema.global_status WHERE variable_name = ?", name,
	)
}

// replicaStatus is what a replica says about its copying, by the names of the columns.
func replicaStatus(t *testing.T, db *sql.DB) map[string]string {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), "SHOW SLAVE STATUS")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil || !rows.Next() {
		t.Fatalf("no status of the replica: %v", errors.Join(err, rows.Err()))
	}
	values := make([]sql.NullString, len(names))
	into := make([]any, len(names))
	for i := range values {
		into[i] = &values[i]
	}
	if err := rows.Scan(into...); err != nil {
		t.Fatal(err)
	}
	status := make(map[string]string, len(names))
	for i, name := range names {
		status[name] = values[i].String
	}
	return status
}
