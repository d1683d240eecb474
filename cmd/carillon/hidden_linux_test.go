package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/carillon-run/carillon/executor"
)

// TestMain is also the program itself, for tests that need a separate process, and the supervisor of its
// commands.
func TestMain(m *testing.M) {
	executor.Supervise()
	if os.Getenv("TEST_ROLE") == "carillon" {
		main()
	}
	os.Exit(m.Run())
}

// process starts the program, as another user if the test runs as root, and returns what the program prints.
func process(t *testing.T, args ...string) (*exec.Cmd, *screen) {
	t.Helper()
	out := &screen{}
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), "TEST_ROLE=carillon", "SECRET=of-the-environment")
	cmd.Stdout, cmd.Stderr = out, out
	if os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Signal(syscall.SIGTERM); _ = cmd.Wait() })
	return cmd, out
}

// says waits until the program has printed a text.
func (s *screen) says(t *testing.T, want string) {
	t.Helper()
	for began := time.Now(); !strings.Contains(s.String(), want); {
		if time.Since(began) > time.Minute {
			t.Fatalf("it does not say %q:\n%s", want, s)
		}
		<-time.After(10 * time.Millisecond)
	}
}

func TestCommandsCannotReadTheEnvironmentOfServerWorkerAndSupervisor(t *testing.T) {
	dir, err := os.MkdirTemp("", "carillon-hidden-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o1777); err != nil { // the processes make their own directories in it
		t.Fatal(err)
	}
	data := filepath.Join(dir, "server")
	server, out := process(
		t, "serve", "--data", data, "--listen", "127.0.0.1:0", "--store", "mem:", "--queues", "inside",
	)
	out.says(t, "is ready")
	address, err := os.ReadFile(filepath.Join(data, "address"))
	if err != nil {
		t.Fatal(err)
	}
	worker, out := process(t, "worker", "--data", filepath.Join(dir, "worker"), "--server",
		strings.TrimSpace(string(address)),
		"--token-file", filepath.Join(data, "token"), "--queues", "outside")
	out.says(t, "Registered")

	for _, c := range []struct{ queue, process string }{
		{"inside", fmt.Sprint(server.Process.Pid)},
		{"outside", fmt.Sprint(worker.Process.Pid)},
		{"outside", "$PPID"},
	} {
		for _, file := range []string{"environ", "maps"} {
			shell := fmt.Sprintf("id -u; cat /proc/%s/%s; true", c.process, file)
			out, code := commandLine(
				t.Context(), "submit", "--data", data, "--queue", c.queue, "--wait", "--", "sh", "-c", shell,
			)
			if got := <-code; got != exitOK || !strings.Contains(out.String(), "Permission denied") ||
				strings.Contains(out.String(), "of-the-environment") {
				t.Errorf("%s of process %s in queue %s: exit code %d: %s", file, c.process, c.queue, got, out)
			}
		}
	}
	countsFiles(t, strings.TrimSpace(string(address)), filepath.Join(data, "token"))
}

// countsFiles checks that a hidden process can still read its own figures for the metrics.
func countsFiles(t *testing.T, address, tokenFile string) {
	t.Helper()
	token, err := os.ReadFile(tokenFile)
	if err != nil {
		t.Fatal(err)
	}
	req, _ := http.NewRequest(http.MethodGet, address+"/metrics", http.NoBody)
	req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"\nprocess_open_fds ", "\nprocess_resident_memory_bytes ", "\nprocess_start_time_seconds ",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the metrics lack %q", want)
		}
	}
}
