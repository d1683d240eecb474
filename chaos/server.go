package chaos

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/carillon-run/carillon/client"
)

// Server is a real process of the carillon binary with a data directory.
type Server struct {
	*Process
	Client *client.Client // set when it is ready, like URL and Token
	URL    string
	Token  string
	Began  time.Time // when the process began

	data string
}

// Launch runs `carillon serve` on a free port, and does not wait for it to be ready.
func Launch(binary, data string, log io.Writer, args ...string) (*Server, error) {
	return launchServer(exec.Command(binary), data, log, args)
}

// launchServer adds the arguments of `carillon serve` to a command that has only a program and perhaps an
// environment.
func launchServer(cmd *exec.Cmd, data string, log io.Writer, args []string) (*Server, error) {
	_ = os.Remove(filepath.Join(data, "address")) // left by a killed process
	flags := lastOfEach(append([]string{"--data", data, "--listen", "127.0.0.1:0"}, args...))
	cmd.Args = append(append(cmd.Args, "serve"), flags...)
	cmd.Stderr = log
	s := &Server{data: data, Began: time.Now()}
	var err error
	s.Process, err = launch(cmd)
	return s, err
}

// lastOfEach keeps the last value of each flag: carillon takes a flag only once. Flags and values come in
// pairs.
func lastOfEach(pairs []string) (flags []string) {
	values := map[string]string{}
	for pair := range slices.Chunk(pairs, 2) {
		values[pair[0]] = pair[1]
	}
	for name, value := range values {
		flags = append(flags, name, value)
	}
	return flags
}

// Start runs `carillon serve` and returns when it is ready.
func Start(ctx context.Context, binary, data string, args ...string) (*Server, error) {
	s, err := Launch(binary, data, os.Stderr, append([]string{"--log-level", "warn"}, args...)...)
	if err != nil {
		return nil, err
	}
	if err := s.Ready(ctx); err != nil {
		s.Kill()
		return nil, err
	}
	return s, nil
}

// StartAndKill kills a process so soon that it is perhaps not even ready.
func StartAndKill(binary, data string, after time.Duration) error {
	s, err := Launch(binary, data, nil)
	if err != nil {
		return err
	}
	time.Sleep(after)
	s.Kill()
	return nil
}

// Ready polls for the address and for readiness: it waits for another process.
func (s *Server) Ready(ctx context.Context) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-s.ended:
			return fmt.Errorf("carillon serve ended: %v", s.err)
		case <-ctx.Done():
			return fmt.Errorf("carillon serve is not ready: %w", ctx.Err())
		case <-tick.C:
		}
		url, token, ok := s.where()
		if !ok || unready(url) != "" {
			continue
		}
		c, err := client.New(client.Config{URL: url, Token: token, Tries: 1})
		s.URL, s.Token, s.Client = url, token, c
		return err
	}
}

// where is the address and the token that the process wrote to its data directory; ok: both are there.
func (s *Server) where() (url, token string, ok bool) {
	address, err1 := os.ReadFile(filepath.Join(s.data, "address"))
	secret, err2 := os.ReadFile(filepath.Join(s.data, "token"))
	return strings.TrimSpace(string(address)), strings.TrimSpace(string(secret)), err1 == nil && err2 == nil
}

// unready is why a server says that it is not ready; empty if it is ready.
func unready(url string) string {
	answer, err := http.Get(url + "/readyz")
	if err != nil {
		return err.Error()
	}
	defer answer.Body.Close()
	if answer.StatusCode == http.StatusOK {
		return ""
	}
	why, _ := io.ReadAll(answer.Body)
	return answer.Status + ": " + string(why)
}
