// Package server starts private servers of the databases that tests and benchmarks need: on a free port of
// the loopback interface, in their own directory, and never longer than the process that started them.
package server

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/carillon-run/carillon/porttest/skip"
)

// ErrMissing says that a program is not installed, and how to get it.
var ErrMissing = errors.New("not installed")

// Missing says that a server could not be started because its program is not installed.
func Missing(err error) bool { return errors.Is(err, ErrMissing) }

// Need ends a test that cannot go on because of err. If a program is not installed, it skips the test loudly,
// unless servers are demanded: see package skip. Any other error fails the test. Without an error it does
// nothing.
func Need(t testing.TB, err error) {
	t.Helper()
	switch {
	case err == nil:
	case Missing(err):
		skip.Loudly(t, skip.KindServer, "%v", err)
	default:
		t.Fatal(err)
	}
}

// Server is a server program and its directory. It can be stopped and started again at the same address.
type Server struct {
	URL string // how clients reach it
	Dir string // everything it has: settings, data, log

	argv      []string
	port      int
	as        *syscall.Credential // nil: the present user
	ready     func(*Server) bool
	gracious  syscall.Signal // asks it to stop
	crash     syscall.Signal // ends it like a crash; it also gets this when our process dies
	temporary bool           // Dir is removed with the server

	mu    sync.Mutex // guards the fields below
	pid   int        // 0: not running
	ended chan struct{}
}

// patience is how long a server can take to start or to stop on a busy machine.
const patience = 2 * time.Minute

// Start starts the server and waits until it answers.
func (s *Server) Start(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pid != 0 {
		return nil
	}
	if err := s.launch(); err != nil {
		return fmt.Errorf("start %s: %w", s.argv[0], err)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for !s.ready(s) {
		select {
		case <-s.ended:
			s.pid = 0
			return fmt.Errorf("start %s: it ended at once: %s", s.argv[0], s.lastWords())
		case <-ctx.Done():
			s.end(s.crash)
			return fmt.Errorf("start %s: %w: %s", s.argv[0], ctx.Err(), s.lastWords())
		case <-time.After(5 * time.Millisecond):
		}
	}
	return nil
}

// launch starts the program from a thread that lives as long as the program: when the thread that started a
// child ends, the kernel signals the child as if its parent had ended.
func (s *Server) launch() error {
	log, err := os.OpenFile(s.logPath(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(s.argv[0], s.argv[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.Dir, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: s.crash, Credential: s.as}
	started, ended := make(chan error), make(chan struct{})
	go func() {
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			cmd.Wait() // how it ended is in its log
		}
		close(ended)
	}()
	if err := <-started; err != nil {
		return err
	}
	s.pid, s.ended = cmd.Process.Pid, ended
	return nil
}

func (s *Server) logPath() string { return filepath.Join(s.Dir, "log") }

// lastWords returns the end of the server's log.
func (s *Server) lastWords() string {
	b, _ := os.ReadFile(s.logPath())
	return strings.TrimSpace(string(b[max(0, len(b)-2000):]))
}

// Stop ends the server in good order, and removes its directory if it was a temporary one.
func (s *Server) Stop() error {
	err := s.halt(s.gracious)
	if s.temporary {
		err = errors.Join(err, os.RemoveAll(s.Dir))
	}
	return err
}

// Kill ends the server like a crash. Start brings it back.
func (s *Server) Kill() error { return s.halt(s.crash) }

// Restart ends the server in good order and starts it again.
func (s *Server) Restart(ctx context.Context) error {
	if err := s.halt(s.gracious); err != nil {
		return err
	}
	return s.Start(ctx)
}

func (s *Server) halt(sig syscall.Signal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.end(sig)
}

// end is called with mu held.
func (s *Server) end(sig syscall.Signal) error {
	if s.pid == 0 {
		return nil
	}
	for _, sig := range []syscall.Signal{sig, s.crash, syscall.SIGKILL} {
		syscall.Kill(s.pid, sig) // it may be gone already
		select {
		case <-s.ended:
			s.pid = 0
			return nil
		case <-time.After(patience):
		}
	}
	return fmt.Errorf("stop %s: it does not end", s.argv[0])
}

// Pid returns the id of the server's first process; 0 if it is not running.
func (s *Server) Pid() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pid
}

// Signal sends a signal to all processes of the server, for example SIGSTOP and SIGCONT to freeze and thaw
// it.
func (s *Server) Signal(sig syscall.Signal) error {
	pid := s.Pid()
	if pid == 0 {
		return errors.New("the server is not running")
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return err
	}
	pids := []int{pid}
	for _, child := range strings.Fields(string(b)) {
		n, _ := strconv.Atoi(child)
		pids = append(pids, n)
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
	}
	return nil
}

// place makes a directory for a server, and finds the user that it must run as and a free port.
func place(dir, name string) (s *Server, err error) {
	s = &Server{Dir: dir, temporary: dir == ""}
	if s.as, err = otherUser(); err != nil {
		return nil, err
	}
	if s.temporary {
		if s.Dir, err = os.MkdirTemp("", "carillon-"+name+"-"); err != nil {
			return nil, err
		}
	} else if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	if s.as != nil {
		err = os.Chown(s.Dir, int(s.as.Uid), int(s.as.Gid))
	}
	if err == nil {
		s.port, err = freePort()
	}
	return s, err
}

// otherUser returns another user for the server when we are root: database servers refuse to run as root.
func otherUser() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		if u, err := user.Lookup(name); err == nil {
			uid, _ := strconv.Atoi(u.Uid)
			gid, _ := strconv.Atoi(u.Gid)
			return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
		}
	}
	return nil, errors.New(
		"root may not run database servers, and there is neither a user postgres nor nobody",
	)
}

// freePort returns a port on which no program listens. It is not one of the ports that the system uses for
// outgoing connections, because it must still be free when the server is started again.
func freePort() (port int, err error) {
	for range 100 {
		port = 15_000 + rand.IntN(15_000)
		var l net.Listener
		if l, err = net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			return port, l.Close()
		}
	}
	return 0, err
}

// listens says that the server's port accepts connections.
func listens(s *Server) bool {
	conn, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)))
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

// program finds a program in the path, or else in one of the places; of several versions there it takes the
// highest.
func program(name, toInstall string, places ...string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	var found []string
	for _, place := range places {
		paths, _ := filepath.Glob(filepath.Join(place, name))
		found = append(found, paths...)
	}
	if len(found) == 0 {
		return "", fmt.Errorf("%s is %w: %s", name, ErrMissing, toInstall)
	}
	return slices.MaxFunc(found, func(a, b string) int {
		return (len(a)-len(b))*2 + strings.Compare(a, b) // version 9 comes before version 10
	}), nil
}

// run runs a program of the server to its end.
func (s *Server) run(ctx context.Context, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.SysProcAttr = s.Dir, &syscall.SysProcAttr{Credential: s.as}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, out)
	}
	return nil
}

// forTest ties a server to a test. See Need for the case that the program is not installed.
func forTest(t testing.TB, start func(ctx context.Context) (*Server, error)) *Server {
	t.Helper()
	s, err := start(context.Background())
	Need(t, err)
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}
