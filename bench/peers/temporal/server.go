package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// cliVersion is not the newest: `go install` refuses v1.9.1, because its go.mod replaces a module with a
// folder beside it. The server inside is older than the newest one too; Hello says so.
const (
	cliVersion    = "v1.5.1"
	serverVersion = "1.29.1"
)

// keepServer is the argument with which this program starts itself as the keeper of the server.
const keepServer = "keep-server"

// program is where the server is installed, once for all runs: in CACHE, or in the cache directory of this
// user.
func program() (string, error) {
	cache := os.Getenv("CACHE")
	if cache == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return "", err
		}
		cache = filepath.Join(user, "carillon-bench")
	}
	return filepath.Join(cache, "temporal-"+cliVersion, "temporal"), nil
}

// install builds the server unless that was done before. It takes a few minutes.
func install(ctx context.Context) error {
	path, err := program()
	if err != nil {
		return err
	}
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	fmt.Fprintln(os.Stderr, "building Temporal's server, which takes a few minutes the first time")
	build := exec.CommandContext(ctx, "go", "install", "github.com/temporalio/cli/cmd/temporal@"+cliVersion)
	build.Env = append(os.Environ(), "GOBIN="+filepath.Dir(path), "GOFLAGS=")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build Temporal's server: %w: %s", err, out)
	}
	return nil
}

func database(dir string) string { return filepath.Join(dir, "temporal.db") }

// prepared says whether an earlier program has made the store.
func prepared(dir string) bool {
	_, err := os.Stat(database(dir))
	return err == nil
}

// The server must outlive the first program that needs it, if that program is killed while others go on, and
// must not outlive the last one. So a separate process, the keeper, runs it. Every program holds a shared
// lock on a file while it lives; the keeper ends the server when it gets that lock exclusively, and holds the
// lock until everything has ended. A program that starts meanwhile waits.
const (
	usersFile   = "users"
	keeperFile  = "keeper"
	addressFile = "address"
)

// hold takes the shared lock. The kernel releases it when the process ends, in whatever way.
func hold(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, usersFile), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	return f, syscall.Flock(int(f.Fd()), syscall.LOCK_SH)
}

// address starts a keeper, which waits if there is one already, and returns the address of the server when
// the server answers.
func address(ctx context.Context, dir string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	keeper := exec.Command(self, keepServer)
	// Signals to the group of this program are not meant for the keeper.
	keeper.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := keeper.Start(); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for ctx.Err() == nil {
		b, err := os.ReadFile(filepath.Join(dir, addressFile))
		if err == nil && answers(string(b)) {
			return string(b), nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	log, _ := os.ReadFile(filepath.Join(dir, "server.log"))
	return "", fmt.Errorf("the server did not start within a minute: %s", strings.TrimSpace(string(log)))
}

func answers(address string) bool {
	conn, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

// keep runs the server until no program uses it.
func keep(dir string) error {
	alone, err := os.OpenFile(filepath.Join(dir, keeperFile), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	if err := syscall.Flock(int(alone.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	users, err := os.OpenFile(filepath.Join(dir, usersFile), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	unused := func() bool { return syscall.Flock(int(users.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil }
	// This keeper has waited for another one, and there is nothing left to do.
	if unused() {
		return nil
	}
	server, address, err := start(dir)
	if err != nil {
		return err
	}
	// The address appears completely or not at all.
	temporary := filepath.Join(dir, addressFile+".new")
	err = errors.Join(
		os.WriteFile(temporary, []byte(address), 0o644),
		os.Rename(temporary, filepath.Join(dir, addressFile)),
	)
	for err == nil && !unused() {
		time.Sleep(50 * time.Millisecond)
	}
	err = errors.Join(err, os.Remove(filepath.Join(dir, addressFile)), server.Process.Kill())
	_ = server.Wait() // its error says only that it was killed
	return err
}

func start(dir string) (*exec.Cmd, string, error) {
	path, err := program()
	if err != nil {
		return nil, "", err
	}
	log, err := os.Create(filepath.Join(dir, "server.log"))
	if err != nil {
		return nil, "", err
	}
	defer log.Close()
	port, err := free()
	if err != nil {
		return nil, "", err
	}
	server := exec.Command(path, "server", "start-dev", "--headless", "--ip", "127.0.0.1", "--port", port,
		"--log-level", "error",
		"--db-filename", database(
			dir,
		), "--sqlite-pragma", "journal_mode=WAL", "--sqlite-pragma", "synchronous=FULL")
	for _, limit := range []string{
		"frontend.rps", "frontend.namespaceRPS", "frontend.namespaceRPS.visibility", "history.rps",
		"matching.rps",
		"frontend.persistenceMaxQPS", "history.persistenceMaxQPS", "matching.persistenceMaxQPS",
	} {
		server.Args = append(server.Args, "--dynamic-config-value", limit+"=100000")
	}
	server.Stdout, server.Stderr = log, log
	// The server ends with the keeper; more exactly, with the thread that started it.
	runtime.LockOSThread()
	server.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return server, "127.0.0.1:" + port, server.Start()
}

func free() (port string, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	_, port, err = net.SplitHostPort(l.Addr().String())
	return port, err
}
