package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/carillon-run/carillon/adapter/postgres"
	"github.com/carillon-run/carillon/porttest/server"
	"github.com/jackc/pgx/v5"
)

// shared is one server for all tests of the package. The first test that needs it starts it.
var shared struct {
	once      sync.Once
	server    *server.Server
	err       error
	databases atomic.Int64
}

func TestMain(m *testing.M) {
	code := m.Run()
	if shared.server != nil {
		if err := shared.server.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

func sharedServer(t testing.TB) *server.Server {
	t.Helper()
	shared.once.Do(func() {
		shared.server, shared.err = server.StartPostgres(context.Background(), "",
			"fsync=off", "synchronous_commit=off", "full_page_writes=off", "autovacuum=off",
			"shared_buffers=256MB")
	})
	server.Need(t, shared.err)
	return shared.server
}

// database makes an empty database on the shared server and returns its URL.
func database(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("test_%d", shared.databases.Add(1))
	admin := sharedServer(t).URL
	execute(t, admin, `CREATE DATABASE `+name)
	t.Cleanup(func() { execute(t, admin, `DROP DATABASE `+name+` WITH (FORCE)`) })
	return inDatabase(t, admin, name)
}

// inDatabase returns a server's URL with another database.
func inDatabase(t testing.TB, of, name string) string {
	t.Helper()
	u, err := url.Parse(of)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + name
	return u.String()
}

func execute(t testing.TB, url, sql string) {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), url)
	if err == nil {
		_, err = conn.Exec(context.Background(), sql, pgx.QueryExecModeSimpleProtocol)
		err = errors.Join(err, conn.Close(context.Background()))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// number returns the number that a query returns.
func number(t testing.TB, url, sql string) (n int64) {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), url)
	if err == nil {
		err = conn.QueryRow(context.Background(), sql).Scan(&n)
		err = errors.Join(err, conn.Close(context.Background()))
	}
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// guest returns a URL for a role that can read and write the existing tables, but not change the schema.
func guest(t testing.TB, of string) string {
	t.Helper()
	u, err := url.Parse(of)
	if err != nil {
		t.Fatal(err)
	}
	role := "guest_of_" + u.Path[1:]
	execute(t, of, fmt.Sprintf(`CREATE ROLE %[1]s LOGIN; GRANT USAGE ON SCHEMA carillon TO %[1]s;
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA carillon TO %[1]s; GRANT USAGE ON ALL SEQUENCES IN SCHEMA carillon TO %[1]s`, role))
	t.Cleanup(func() { execute(t, of, fmt.Sprintf(`DROP OWNED BY %[1]s; DROP ROLE %[1]s`, role)) })
	u.User = url.User(role)
	return u.String()
}

// untilBlocked returns when a session waits for a lock in the database.
func untilBlocked(t testing.TB, url string) {
	t.Helper()
	conn := client(t, url)
	const query = `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`
	for deadline := time.Now().Add(2 * time.Minute); ; {
		var waiting int
		if err := conn.QueryRow(t.Context(), query).Scan(&waiting); err != nil {
			t.Fatal(err)
		}
		if waiting > 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("no query waits")
		}
	}
}

// emptied empties a database that other tests have used and opens a store on it: many times as fast as a new
// database.
func emptied(t testing.TB, url string, config postgres.Config) *postgres.Store {
	t.Helper()
	store := open(t, url, config)
	if err := store.Empty(context.Background()); err != nil {
		t.Fatal(err)
	}
	return store
}

func open(t testing.TB, url string, config postgres.Config) *postgres.Store {
	t.Helper()
	store, err := postgres.Open(context.Background(), url, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}
