package server

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

const bouncerSettings = `[databases]
* = host=127.0.0.1 port=%s user=carillon
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = transaction
max_client_conn = 500
default_pool_size = 20
`

// PgBouncer puts PgBouncer in front of a PostgreSQL server for a test, in transaction mode: another client
// finds what a client leaves behind in its session.
func PgBouncer(t testing.TB, postgres *Server) *Server {
	t.Helper()
	return forTest(t, func(ctx context.Context) (*Server, error) { return StartPgBouncer(ctx, "", postgres) })
}

// StartPgBouncer does the same outside tests.
func StartPgBouncer(ctx context.Context, dir string, postgres *Server) (*Server, error) {
	bouncer, err := program("pgbouncer", "apt-get install pgbouncer", "/usr/sbin")
	if err != nil {
		return nil, err
	}
	behind, err := url.Parse(postgres.URL)
	if err != nil {
		return nil, err
	}
	s, err := place(dir, "pgbouncer")
	if err != nil {
		return nil, err
	}
	settings := filepath.Join(s.Dir, "pgbouncer.ini")
	s.gracious, s.crash, s.ready = syscall.SIGINT, syscall.SIGKILL, listens
	s.argv = []string{bouncer, settings}
	s.URL = fmt.Sprintf("postgres://carillon@127.0.0.1:%d%s?sslmode=disable", s.port, behind.Path)
	err = os.WriteFile(settings, fmt.Appendf(nil, bouncerSettings, behind.Port(), s.port), 0o644)
	if err == nil {
		err = s.Start(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}
