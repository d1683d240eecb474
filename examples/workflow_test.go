package examples

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// program builds the command line and serves on a free address.
func program(t *testing.T) (run func(args ...string) string) {
	t.Helper()
	binary, data := filepath.Join(t.TempDir(), "carillon"), filepath.Join(t.TempDir(), "data")
	if out, err := exec.Command("go", "build", "-o", binary, "../cmd/carillon").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	env := []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "CARILLON_DATA=" + data,
	}
	log := &output{}
	serve := exec.Command(binary, "serve", "--listen", "127.0.0.1:0", "--store", "mem:")
	serve.Env, serve.Stdout, serve.Stderr, serve.WaitDelay = env, log, log, patience
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = serve.Process.Signal(syscall.SIGTERM)
		_ = serve.Wait()
		if t.Failed() {
			t.Logf("the server says:\n%s", log)
		}
	})
	for began := time.Now(); ; {
		if _, err := os.Stat(filepath.Join(data, "address")); err == nil {
			break
		}
		if time.Since(began) > patience {
			t.Fatal("the server does not start")
		}
		select { // there is no event here for the progress of another process
		case <-time.After(20 * time.Millisecond):
		case <-t.Context().Done():
		}
	}
	return func(args ...string) string {
		t.Helper()
		var out, bad bytes.Buffer
		cmd := exec.CommandContext(t.Context(), binary, args...)
		cmd.Env, cmd.Stdout, cmd.Stderr = env, &out, &bad
		if err := cmd.Run(); err != nil || bad.Len() > 0 {
			t.Fatalf("carillon %s: %v\n%s%s", strings.Join(args, " "), err, &out, &bad)
		}
		return out.String()
	}
}

func TestTheWorkflow(t *testing.T) {
	t.Parallel()
	need(t, "go")
	run := program(t)
	run("submit", "-f", "workflow/nightly.yaml")
	run("workflow", "signal", "nightly-load", "approve", "--payload", `{"who": "ann"}`)
	followed := run("workflow", "show", "nightly-load", "-f")
	for _, line := range []string{
		"list succeeded", "load succeeded", "approve succeeded", "publish succeeded", "alarm skipped",
	} {
		if !strings.Contains("\n"+followed, "\n"+line) {
			t.Errorf("no line says %q:\n%s", line, followed)
		}
	}
	if jobs := run("jobs"); strings.Count(jobs, "\n") != 2 || !strings.Contains(jobs, "nightly-load") {
		t.Errorf("the jobs:\n%s", jobs)
	}
	if parts := run("jobs", "--parts"); !strings.Contains(parts, "load[1]") {
		t.Errorf("the parts:\n%s", parts)
	}
	shown := run("workflow", "show", "nightly-load")
	if !strings.Contains(shown, "items 2/2") || !strings.Contains(shown, "└─– alarm") {
		t.Errorf("shown:\n%s", shown)
	}
}
