package chaos

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/chaos/check"
)

func TestAFrozenServerLeavesNoCommandRunningAndTakesItAsALoss(t *testing.T) {
	t.Parallel()
	binary := buildBinary(t)
	ctx, cancel := context.WithTimeout(t.Context(), hang)
	defer cancel()
	s, err := Start(ctx, binary, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	witness := filepath.Join(t.TempDir(), "witness")
	job, err := s.Client.Submit(ctx, witnessed(witness, time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	poll(t, ctx, "the first start", func() bool { return len(read(t, witness)) > 0 })

	if err := s.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	stopped := time.Now()
	poll(t, ctx, "the command to be killed by its supervisor", func() bool {
		// On a busy machine it can be silent for a moment before its lease is over.
		lines := read(t, witness)
		return time.Since(stopped) > 6*time.Second && carillon.Now().Sub(lines[len(lines)-1].At) > time.Second
	})
	if err := s.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	poll(t, ctx, "the next start", func() bool {
		lines := read(t, witness)
		return lines[len(lines)-1].Attempt > 1
	})
	run := carillon.RunID{Job: job.ID, Due: job.Schedule.At}
	got, err := s.Client.Run(ctx, run)
	// A pull from before the freeze can get the run before the worker has its lease again. The worker then
	// hands the run back without beginning it: one more loss.
	if err != nil || got.Losses < 1 || got.Losses != got.Attempt-1 || got.Failures != 0 {
		t.Errorf(
			"after the thaw: attempt %d, %d losses, %d failures, %v; want only losses", got.Attempt,
			got.Losses, got.Failures, err,
		)
	}
	t.Logf("attempt %d after the freeze", got.Attempt)

	if _, err := s.Client.CancelRun(ctx, run); err != nil {
		t.Fatal(err)
	}
	poll(t, ctx, "the run to be canceled", func() bool {
		got, err = s.Client.Run(ctx, run)
		return err == nil && got.State == carillon.StateCanceled
	})
	lines := read(t, witness)
	if last := lines[len(lines)-1]; last.At > got.Ended {
		t.Errorf("canceled at %s, but its process lived at %s", got.Ended, last.At)
	}
	for _, broken := range check.Lines(lines) {
		t.Error(broken)
	}
}

func TestASecondServerOnTheSameDirectoryIsRefusedByName(t *testing.T) {
	t.Parallel()
	binary, data := buildBinary(t), t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), hang)
	defer cancel()
	s, err := Start(ctx, binary, data)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	out := refused(t, ctx, binary, data)
	if want := "in use by carillon process "; !strings.Contains(out, want) || !strings.Contains(out, s.URL) {
		t.Errorf("the second server said %q; want it to name the first", out)
	}
}

func refused(t *testing.T, ctx context.Context, binary, data string) string {
	t.Helper()
	out, err := exec.CommandContext(
		ctx, binary, "serve", "--data", data, "--listen", "127.0.0.1:0",
	).CombinedOutput()
	if err == nil {
		t.Fatal("the second server ran")
	}
	return string(out)
}
