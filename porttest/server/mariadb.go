package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

const installMariaDB = "apt-get install mariadb-server"

// MariaDB starts a MariaDB server for a test. If the server crashes, it loses the last writes: pass
// innodb_flush_log_at_trx_commit=1 if that matters.
func MariaDB(t testing.TB, settings ...string) *Server {
	t.Helper()
	return forTest(t, func(ctx context.Context) (*Server, error) {
		quick := []string{
			"innodb_flush_log_at_trx_commit=0", "innodb_doublewrite=0", "innodb_buffer_pool_size=64M",
			"innodb_log_file_size=32M",
		}
		return StartMariaDB(ctx, "", append(quick, settings...)...)
	})
}

// StartMariaDB starts a MariaDB server with an empty database, carillon, in dir (default: a temporary one).
// Settings are those of the server, name=value. Every user of this machine can connect as root, without a
// password.
func StartMariaDB(ctx context.Context, dir string, settings ...string) (*Server, error) {
	install, err := program("mariadb-install-db", installMariaDB)
	if err != nil {
		return nil, err
	}
	mariadbd, err := program("mariadbd", installMariaDB, "/usr/sbin", "/usr/local/sbin", "/usr/libexec")
	if err != nil {
		return nil, err
	}
	s, err := place(dir, "mariadb")
	if err != nil {
		return nil, err
	}
	s.gracious, s.crash, s.ready = syscall.SIGTERM, syscall.SIGKILL, listens
	s.URL = fmt.Sprintf("mysql://root@127.0.0.1:%d/carillon", s.port)
	first := filepath.Join(s.Dir, "first.sql")
	s.argv = []string{
		mariadbd, "--no-defaults", "--datadir=" + s.data(), "--port=" + strconv.Itoa(s.port),
		"--bind-address=127.0.0.1",
		"--socket=" + filepath.Join(s.socketDir(), "socket"), "--pid-file=" + filepath.Join(s.Dir, "pid"),
		"--init-file=" + first,
		"--skip-log-bin", "--skip-name-resolve", "--tmpdir=" + s.Dir, "--max-connections=200",
	}
	for _, setting := range settings {
		s.argv = append(s.argv, "--"+setting)
	}
	err = os.WriteFile(first, []byte("CREATE DATABASE IF NOT EXISTS carillon;\n"), 0o644)
	if err == nil {
		err = s.run(ctx, install, "--no-defaults", "--datadir="+s.data(),
			"--auth-root-authentication-method=normal", "--skip-test-db",
			"--tmpdir="+s.Dir) // servers that share one remove each other's files
	}
	if err == nil {
		err = s.Start(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}
