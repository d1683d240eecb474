package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

const installPostgres = "apt-get install postgresql"

// Postgres starts a PostgreSQL server for a test. It loses the last writes if the machine crashes, but not if
// the server does.
func Postgres(t testing.TB, settings ...string) *Server {
	t.Helper()
	return forTest(t, func(ctx context.Context) (*Server, error) {
		return StartPostgres(ctx, "", append([]string{"fsync=off"}, settings...)...)
	})
}

// StartPostgres starts a PostgreSQL server with an empty cluster in dir (default: a temporary one). Settings
// are those of postgresql.conf, name=value; fsync is on unless they say otherwise. Every user of this machine
// can connect.
func StartPostgres(ctx context.Context, dir string, settings ...string) (*Server, error) {
	initdb, err := program("initdb", installPostgres, "/usr/lib/postgresql/*/bin", "/usr/local/pgsql/bin")
	if err != nil {
		return nil, err
	}
	real, err := filepath.EvalSymlinks(initdb)
	if err != nil {
		return nil, err
	}
	postgres := filepath.Join(filepath.Dir(real), "postgres") // of the same version
	s, err := place(dir, "postgres")
	if err != nil {
		return nil, err
	}
	s.gracious, s.crash, s.ready = syscall.SIGINT, syscall.SIGQUIT, postgresReady
	s.URL = fmt.Sprintf("postgres://carillon@127.0.0.1:%d/postgres?sslmode=disable", s.port)
	s.argv = []string{
		postgres, "-D", s.data(), "-p", strconv.Itoa(s.port), "-c", "listen_addresses=127.0.0.1",
		"-c", "unix_socket_directories=" + s.socketDir(), "-c", "max_connections=200",
	}
	for _, setting := range settings {
		s.argv = append(s.argv, "-c", setting)
	}
	err = s.run(
		ctx, initdb, "-D", s.data(), "-U", "carillon", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync",
		"--no-instructions",
	)
	if err == nil {
		err = s.Start(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

func (s *Server) data() string { return filepath.Join(s.Dir, "data") }

// socketDir is the server's directory, unless its name is too long for the address of a socket.
func (s *Server) socketDir() string {
	if len(s.Dir) > 80 {
		return ""
	}
	return s.Dir
}

// postgresReady reads the file in which the server records its state: its process id first, and later its
// status.
func postgresReady(s *Server) bool {
	b, err := os.ReadFile(filepath.Join(s.data(), "postmaster.pid"))
	if err != nil {
		return false
	}
	lines := strings.Split(string(b), "\n")
	const status = 7
	return len(lines) > status && lines[0] == strconv.Itoa(s.pid) &&
		strings.TrimSpace(lines[status]) == "ready"
}
