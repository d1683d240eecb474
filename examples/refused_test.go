package examples

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// refused runs a worker that ends by itself. It returns the output of the worker, its exit code, and the
// files that it left in its temporary directory.
func refused(t *testing.T, env []string, argv ...string) (said string, code int, left []string) {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + dir}, env...)
	out, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	left, err = filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode(), left
}

func TestAWorkerWithAWrongTokenSaysSoInOneLineAndLeavesNothing(t *testing.T) {
	t.Parallel()
	need(t, "curl", "setsid", "python3")
	h := newHouse(t)
	env := []string{"CARILLON_SERVER=" + h.url, "CARILLON_TOKEN=wrong"}
	for name, argv := range map[string][]string{
		"shell":  {"shell/worker.sh", "queue", "true"},
		"python": {"python3", "python/worker.py", "queue"},
	} {
		t.Run(name, func(t *testing.T) {
			said, code, left := refused(t, env, argv...)
			if said != "the server does not accept CARILLON_TOKEN\n" || code != 1 || len(left) > 0 {
				t.Errorf("exit code %d, left %v, said %s", code, left, said)
			}
		})
	}
}

func TestAWorkerThatIsToldTooLittleSaysHowToUseIt(t *testing.T) {
	t.Parallel()
	need(t, "python3")
	for name, c := range map[string]struct{ env, argv []string }{
		"shell without arguments": {
			[]string{"CARILLON_SERVER=http://127.0.0.1:1", "CARILLON_TOKEN=x"}, []string{"shell/worker.sh"},
		},
		"shell without a token": {
			[]string{"CARILLON_SERVER=http://127.0.0.1:1"}, []string{"shell/worker.sh", "queue", "true"},
		},
		"python without a token": {
			[]string{"CARILLON_SERVER=http://127.0.0.1:1"}, []string{"python3", "python/worker.py", "queue"},
		},
		"python without a queue": {
			[]string{"CARILLON_SERVER=http://127.0.0.1:1", "CARILLON_TOKEN=x"},
			[]string{"python3", "python/worker.py"},
		},
		"python without any server": {
			[]string{"CARILLON_TOKEN=x"}, []string{"python3", "python/worker.py", "queue"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			said, code, left := refused(t, c.env, c.argv...)
			if !strings.HasPrefix(said, "usage: CARILLON_SERVER=") || strings.Count(said, "\n") != 1 ||
				code != 2 || len(left) > 0 {
				t.Errorf("exit code %d, left %v, said %s", code, left, said)
			}
		})
	}
}
