package executor

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/porttest/skip"
)

// noNewPrivs is the line of /proc/self/status.
func noNewPrivs(t *testing.T) string {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, line, _ := strings.Cut(string(status), "NoNewPrivs:\t")
	return line[:1]
}

func TestCommandsCannotGainPrivilegesUnlessThatIsAllowed(t *testing.T) {
	t.Parallel()
	for allowed, want := range map[bool]string{false: "1", true: noNewPrivs(t)} {
		task, r := newTask(shell(`grep NoNewPrivs /proc/self/status`))
		same(t, run(t, CommandConfig{AllowSetuid: allowed}, task), carillon.Outcome{
			Kind: carillon.OutcomeSuccess,
		})
		if got := r.output(); got != "stdout: NoNewPrivs:\t"+want {
			t.Errorf("allowed: %t: %q", allowed, got)
		}
	}
}

const otherUser = 65534

// unprivileged is a stand-in for a worker that runs as a user other than root, and a program that does what
// sudo does: it belongs to root, has the setuid bit, and becomes root altogether.
func unprivileged(t *testing.T) (w worker, life *lifeline) {
	t.Helper()
	if os.Geteuid() != 0 || noNewPrivs(t) != "0" {
		skip.Loudly(t, skip.KindRights, "only root can make setuid programs; run the tests as root")
	}
	dir, err := os.MkdirTemp("", "carillon-privileges-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	sudo := filepath.Join(dir, "sudo")
	copyFile(t, "/proc/self/exe", sudo)
	temp := filepath.Join(dir, "temp")
	for _, err := range []error{
		os.Chmod(sudo, 0o755|os.ModeSetuid), os.Chmod(dir, 0o755), os.Mkdir(temp, 0o700),
		os.Chown(temp, otherUser, otherUser),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	life = newLifelineIn(t, dir)
	if err := os.Chown(life.path, otherUser, otherUser); err != nil {
		t.Fatal(err)
	}
	w = worker{Env: life.env(), Temp: temp, Leash: temp + "/leash", UID: otherUser}
	w.Env["TEST_ROLE"] = "sudo"
	w.Shell = "exec " + sudo
	return w, life
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}

// sudo is the main of the program with the setuid bit: it becomes root if it can, reports its user, and
// stays.
func sudo() {
	_ = syscall.Setresuid(0, 0, 0)
	life, err := os.OpenFile(os.Getenv("LIFELINE"), os.O_WRONLY, 0)
	if err != nil {
		panic(err)
	}
	fmt.Fprintf(life, "uid %d pid %d ready\n", os.Getuid(), os.Getpid())
	select {}
}

// self reads what the program with the setuid bit reports about itself.
func self(t *testing.T, said string) (uid, pid int) {
	t.Helper()
	if _, err := fmt.Sscanf(said, "uid %d pid %d ready", &uid, &pid); err != nil {
		t.Fatalf("%q: %v", said, err)
	}
	return uid, pid
}

func TestASetuidProgramGainsNothingAndDiesAtTheTimeout(t *testing.T) {
	t.Parallel()
	w, life := unprivileged(t)
	cmd, out := w.start(t)
	if uid, _ := self(t, life.ready(t, 1)); uid != otherUser {
		t.Errorf("it has become user %d", uid)
	}
	_ = cmd.Process.Signal(unix.SIGUSR1)
	life.gone(t)
	if err := cmd.Wait(); err != nil ||
		out.String() != fmt.Sprintf("%d timed out\n", carillon.OutcomeRetriable) {
		t.Errorf("the worker says %q, %v", out, err)
	}
}

func TestAProcessThatCannotBeKilledIsNamed(t *testing.T) {
	t.Parallel()
	w, life := unprivileged(t)
	w.AllowSetuid = true
	cmd, out := w.start(t)
	uid, pid := self(t, life.ready(t, 1))
	if uid != 0 {
		skip.Loudly(t, skip.KindRights, "setuid programs have no effect in %s: it is mounted nosuid", w.Temp)
	}
	defer func() { _ = unix.Kill(pid, unix.SIGKILL) }()
	_ = cmd.Process.Signal(unix.SIGUSR1)
	name := fmt.Sprintf("process %d (sudo) of user 0 cannot be killed", pid)
	said := within(t, func() string { return <-w.said })
	if !strings.Contains(said, name) || !strings.Contains(said, " ERROR ") ||
		!strings.Contains(said, "run=run_") {
		t.Errorf("the worker's log says %q, want %q", said, name)
	}

	_ = cmd.Process.Kill() // the next worker of the directory learns of it too
	_ = cmd.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if f, err := HoldLeash(ctx, w.Leash); err == nil || !strings.Contains(err.Error(), name) {
		t.Errorf("the leash is held: %v, %v; want %q", f, err, name)
	}
	_ = unix.Kill(pid, unix.SIGKILL)
	life.gone(t)
	holdLeashOf(t, w.Leash)
	if !strings.Contains(out.String(), name) {
		t.Errorf("the run's log says %q", out)
	}
}
