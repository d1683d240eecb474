package server

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

// Replica starts a streaming replica of a PostgreSQL server for a test. It can be read from, and keeps
// running when the primary is gone.
func Replica(t testing.TB, primary *Server, settings ...string) *Server {
	t.Helper()
	return forTest(t, func(ctx context.Context) (*Server, error) {
		return StartReplica(ctx, "", primary, settings...)
	})
}

// StartReplica does the same outside tests. The settings are those of postgresql.conf, name=value. Some of
// them, such as max_connections, must not be lower than those of the primary. With primary_conninfo the
// replica reads from another address than that of the primary.
func StartReplica(ctx context.Context, dir string, primary *Server, settings ...string) (*Server, error) {
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
	for _, setting := range settings {
		s.argv = append(s.argv, "-c", setting)
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

// Promote makes a replica of a PostgreSQL server a primary, and returns when it takes writes.
func (s *Server) Promote(ctx context.Context) error {
	return s.run(
		ctx, filepath.Join(filepath.Dir(s.argv[0]), "pg_ctl"), "promote", "--pgdata", s.data(), "--wait",
		"--timeout", strconv.Itoa(int(patience.Seconds())),
	)
}

// SetReplicas says which replicas of a PostgreSQL server must have a commit on disk before the server answers
// it: the value of synchronous_standby_names, such as *; empty: none. The server reads it a moment later.
func (s *Server) SetReplicas(names string) error {
	f, err := os.OpenFile(filepath.Join(s.data(), "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "\nsynchronous_standby_names = '%s'\n", names)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return syscall.Kill(s.Pid(), syscall.SIGHUP)
}
