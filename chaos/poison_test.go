package chaos

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/chaos/check"
	"github.com/carillon-run/carillon/client"
)

// poison is a command that harms the machine or its worker.
type poison struct {
	name, script string
	timeout      time.Duration
	attempts     int32
	reason       string // with which it fails for good
	says         string // a line that its log must have; empty: any
}

// The fork bomb stops at some thousand processes, so that a supervisor that does not limit it fails the test
// and not the machine.
var poisons = []poison{
	{
		name:     "a gigabyte of log",
		script:   `yes 'a line of a log that says nothing' | head -c 1000000000; exit 3`,
		attempts: 1, reason: "exit code 3", says: "the output is cut here: more than 16 MiB",
	},
	{
		name:     "a fork bomb",
		script:   `i=0; while [ $i -lt 3000 ]; do sleep 1000 & i=$((i+1)); done; wait`,
		attempts: 2, reason: "more than 200 processes at once: all of them were killed",
	},
	{
		name:    "one that ignores SIGTERM",
		script:  `trap '' TERM; echo deaf; while :; do sleep 1; done`,
		timeout: time.Second, attempts: 2, reason: "timed out after 1s", says: "deaf",
	},
	{
		name: "one that never returns", script: `exec sleep 1000000`, timeout: 2 * time.Second,
		attempts: 2, reason: "timed out after 2s",
	},
}

func (p poison) definition() carillon.Definition {
	def := carillon.Definition{}
	def.Name, def.Timeout = p.name, carillon.Duration(p.timeout)
	def.Target.Command = &carillon.Command{Shell: p.script}
	def.Retry.MaxAttempts, def.Retry.Delay = p.attempts, carillon.Duration(10*time.Millisecond)
	return def
}

func TestPoisonJobsHarmNoNeighborAndEndWithTheirReason(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), hang)
	defer cancel()
	witness, machine := filepath.Join(t.TempDir(), "witness"), watchMachine()
	s, err := Start(ctx, buildBinary(t), t.TempDir(), "--max-processes", "200", "--concurrency", "32")
	if err != nil {
		t.Fatal(err)
	}
	before := peak(t, s)
	var bad, good []carillon.Job
	submit := func(to *[]carillon.Job, def carillon.Definition) {
		t.Helper()
		job, err := s.Client.Submit(ctx, def)
		if err != nil {
			t.Fatal(err)
		}
		*to = append(*to, job)
	}
	for _, p := range poisons {
		submit(&bad, p.definition())
	}
	for i := range 40 {
		def := witnessed(witness, 20*time.Millisecond)
		def.Schedule.After = carillon.Duration(time.Duration(i) * 200 * time.Millisecond)
		submit(&good, def)
	}
	for _, job := range good {
		run := endOf(t, ctx, s.Client, job)
		if run.State != carillon.StateSucceeded || run.Attempt != 1 {
			t.Errorf("a neighbor was harmed: %s", row(run))
		}
		late := run.Started.Sub(run.ID.Due)
		if late > onTime+machine.allowance(run.ID.Due.Std(), run.Started.Std()) {
			t.Errorf("a neighbor started %s late: %s", late, row(run))
		}
	}
	for i, p := range poisons {
		run := endOf(t, ctx, s.Client, bad[i])
		if run.State != carillon.StateFailed || run.Failures != p.attempts || run.Losses != 0 ||
			run.Reason != p.reason {
			t.Errorf("%s: want it failed for good with %q: %s", p.name, p.reason, row(run))
		}
		if !said(t, ctx, s.Client, run.ID, p.says) {
			t.Errorf("%s: its log has no line %q", p.name, p.says)
		}
	}
	dead := map[carillon.JobID]bool{}
	for run, err := range s.Client.DeadLetters(ctx, carillon.DeadFilter{}, 100) {
		if err != nil {
			t.Fatal(err)
		}
		dead[run.ID.Job] = true
	}
	if len(dead) != len(poisons) {
		t.Errorf("%d dead letters, want %d", len(dead), len(poisons))
	}
	// A gigabyte of output came and went. The race detector multiplies memory.
	if grown := peak(t, s) - before; grown > 800<<20 {
		t.Errorf("the server needed %d MiB more", grown>>20)
	}
	if err := s.Stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
	for _, broken := range check.Lines(read(t, witness)) {
		t.Error(broken)
	}
}

// Its worker dies each time, and is started again as a service manager would do it.
func TestAJobThatKillsItsWorkerIsQuarantined(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), hang)
	defer cancel()
	binary, witness := buildBinary(t), filepath.Join(t.TempDir(), "witness")
	s, err := Start(ctx, binary, t.TempDir(), "--queues", "default") // it must not be the worker that dies
	if err != nil {
		t.Fatal(err)
	}
	const killer = `while read key value; do [ "$key" != PPid: ] || kill -9 $value; done < /proc/$PPID/status`
	def := carillon.Definition{}
	def.Name, def.Queue = "kills its worker", "killer"
	def.Target.Command = &carillon.Command{Shell: killer}
	def.Retry.MaxAttempts, def.Retry.MaxCrashes = 1, 2
	bad, err := s.Client.Submit(ctx, def)
	if err != nil {
		t.Fatal(err)
	}
	good, err := s.Client.Submit(ctx, witnessed(witness, time.Second))
	if err != nil {
		t.Fatal(err)
	}
	data, deaths := t.TempDir(), 0
	for over := false; !over; {
		cmd := exec.Command(binary, "worker", "--server", s.URL, "--token", s.Token, "--queues", "killer",
			"--data", data, "--log-level", "error")
		cmd.Stderr = os.Stderr
		p, err := launch(cmd)
		if err != nil {
			t.Fatal(err)
		}
		poll(t, ctx, "the end of the job or of its worker", func() bool {
			over = lastRun(t, ctx, s.Client, bad).State.Ended()
			return over || p.Crashed()
		})
		if p.Crashed() {
			deaths++
		}
		p.Kill()
	}
	run := endOf(t, ctx, s.Client, bad)
	if run.State != carillon.StateFailed || run.Losses != 2 || run.Failures != 0 || deaths != 2 ||
		run.Reason != "quarantined: its worker died 2 times while it ran" {
		t.Errorf("its worker died %d times: %s", deaths, row(run))
	}
	if run := endOf(t, ctx, s.Client, good); run.State != carillon.StateSucceeded || run.Attempt != 1 {
		t.Errorf("a neighbor was harmed: %s", row(run))
	}
	if err := s.Stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
}

// lastRun is the present record of a job's only run.
func lastRun(t *testing.T, ctx context.Context, c *client.Client, job carillon.Job) carillon.Run {
	t.Helper()
	detail, err := c.Run(ctx, only(job))
	if err != nil {
		t.Fatal(err)
	}
	return detail.Run
}

// endOf waits for the end of a job's only run.
func endOf(t *testing.T, ctx context.Context, c *client.Client, job carillon.Job) (run carillon.Run) {
	t.Helper()
	poll(t, ctx, "the end of "+job.Name, func() bool {
		run = lastRun(t, ctx, c, job)
		return run.State.Ended()
	})
	return run
}

// said says whether a run's log has a line.
func said(t *testing.T, ctx context.Context, c *client.Client, id carillon.RunID, want string) bool {
	t.Helper()
	if want == "" {
		return true
	}
	found := false
	for line, err := range c.Logs(ctx, id, client.LogQuery{}) {
		if err != nil {
			t.Fatal(err)
		}
		found = found || strings.Contains(line.Text, want)
	}
	return found
}

// peak is the most memory that a server has needed so far, in bytes.
func peak(t *testing.T, s *Server) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		var kb int64
		if n, _ := fmt.Sscanf(line, "VmHWM: %d kB", &kb); n == 1 {
			return kb << 10
		}
	}
	t.Fatal("the kernel does not say how much memory the server has needed")
	return 0
}
