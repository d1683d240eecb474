package chaos

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/carillon-run/carillon/client"
)

// Server is a real process of the carillon binary on a data directory.
type Server struct {
	Client *client.Client
	URL    string
	Token  string
	Began  time.Time // the process

	cmd  *exec.Cmd
	done chan error
}

// Start runs `carillon serve` on a free port and returns when it is ready.
func Start(ctx context.Context, binary, data string, args ...string) (*Server, error) {
	address := filepath.Join(data, "address")
	_ = os.Remove(address) // of a killed process
	s := &Server{done: make(chan error, 1)}
	s.cmd = exec.Command(binary, append([]string{"serve", "--data", data, "--listen", "127.0.0.1:0", "--log-level", "warn"}, args...)...)
	s.cmd.Stderr = os.Stderr
	s.Began = time.Now()
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { s.done <- s.cmd.Wait() }()
	if err := s.await(ctx, address, filepath.Join(data, "token")); err != nil {
		s.Kill()
		return nil, err
	}
	c, err := client.New(client.Config{URL: s.URL, Token: s.Token})
	s.Client = c
	return s, err
}

// StartAndKill kills a process so soon that it may not even be ready.
func StartAndKill(binary, data string, after time.Duration) error {
	s := &Server{done: make(chan error, 1)}
	s.cmd = exec.Command(binary, "serve", "--data", data, "--listen", "127.0.0.1:0", "--log-level", "warn")
	if err := s.cmd.Start(); err != nil {
		return err
	}
	go func() { s.done <- s.cmd.Wait() }()
	time.Sleep(after)
	s.Kill()
	return nil
}

// await polls for the address and for readiness: what it waits for is another process.
func (s *Server) await(ctx context.Context, address, token string) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-s.done:
			s.done <- err
			return fmt.Errorf("carillon serve ended: %v", err)
		case <-ctx.Done():
			return fmt.Errorf("carillon serve is not ready: %w", ctx.Err())
		case <-tick.C:
		}
		url, err1 := os.ReadFile(address)
		secret, err2 := os.ReadFile(token)
		if err1 != nil || err2 != nil {
			continue
		}
		s.URL, s.Token = strings.TrimSpace(string(url)), strings.TrimSpace(string(secret))
		if answer, err := http.Get(s.URL + "/readyz"); err == nil {
			answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return nil
			}
		}
	}
}

// Kill ends the process with SIGKILL.
func (s *Server) Kill() {
	_ = s.cmd.Process.Kill()
	s.done <- <-s.done
}

// Stop asks the process to drain and end.
func (s *Server) Stop() error {
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	return <-s.done
}

// Signal sends any signal.
func (s *Server) Signal(sig syscall.Signal) error { return s.cmd.Process.Signal(sig) }
