package server

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

// Replica starts a streaming replica of a PostgreSQL server for a test. It can be read from, and keeps
// running when the primary is gone.
func Replica(t testing.TB, primary *Server) *Server {
	t.Helper()
	return forTest(t, func(ctx context.Context) (*Server, error) { return StartReplica(ctx, "", primary) })
}

// StartReplica does the same outside tests.
func StartReplica(ctx context.Context, dir string, primary *Server) (*Server, error) {
	postgres := primary.argv[0] // of the same version
	from, err := url.Parse(primary.URL)
	if err != nil {
		return nil, err
	}
	s, err := place(dir, "replica")
	if err != nil {
		return nil, err
	}
	s.gracious, s.crash, s.ready = syscall.SIGINT, syscall.SIGQUIT, postgresReady
	s.URL = fmt.Sprintf("postgres://carillon@127.0.0.1:%d%s?sslmode=disable", s.port, from.Path)
	s.argv = []string{
		postgres, "-D", s.data(), "-p", strconv.Itoa(s.port), "-c", "listen_addresses=127.0.0.1",
		"-c", "unix_socket_directories=" + s.socketDir(), "-c", "max_connections=200", "-c", "fsync=off",
	}
	err = s.run(ctx, filepath.Join(filepath.Dir(postgres), "pg_basebackup"),
		"--pgdata", s.data(), "--dbname", primary.URL, "--write-recovery-conf", "--checkpoint=fast",
		"--no-sync")
	if err == nil {
		err = s.Start(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}
