// Package examples has workers in several languages. Its tests run them against a real node.
package examples

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/client"
	"github.com/carillon-run/carillon/node"
	"github.com/carillon-run/carillon/porttest/server"
)

// house is a node whose own worker serves another queue.
type house struct {
	*client.Client
	t     *testing.T
	url   string
	token string
	log   *output
}

func newHouse(t *testing.T) *house {
	t.Helper()
	h := &house{t: t, log: &output{}}
	logger := slog.New(slog.NewTextHandler(h.log, nil))
	n, err := node.Open(t.Context(), node.Config{
		Data: filepath.Join(t.TempDir(), "data"), Store: "mem:", Listen: "127.0.0.1:0",
		Queues: []string{"inside"}, Logger: logger,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("the node says:\n%s", h.log)
		}
	})
	token, err := os.ReadFile(n.TokenFile())
	if err != nil {
		t.Fatal(err)
	}
	h.url, h.token = n.URL(), strings.TrimSpace(string(token))
	if h.Client, err = client.New(client.Config{URL: h.url, Token: h.token}); err != nil {
		t.Fatal(err)
	}
	return h
}

// output is written by a process and read by a test.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// need ends a test whose tools are missing, and says so loudly: a test that is skipped in silence is never
// fixed.
func need(t *testing.T, tools ...string) {
	t.Helper()
	for _, tool := range tools {
		if _, err := exec.LookPath(tool); err != nil {
			server.Need(t, fmt.Errorf("%s is %w: apt-get install %s", tool, server.ErrMissing, tool))
		}
	}
}

// start runs a worker until the test ends, or until it is stopped.
func (h *house) start(argv ...string) (stop func()) {
	h.t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	// The first address does not answer, so the worker must go on to the next.
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "CARILLON_TOKEN=" + h.token,
		"CARILLON_SERVER=http://127.0.0.1:1," + h.url,
	}
	out := &output{}
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = out, out, patience
	if err := cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		kill := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
		err := cmd.Wait()
		kill.Stop()
		if err != nil {
			h.t.Errorf("%s ended with %v", argv, err)
		}
		if h.t.Failed() {
			h.t.Logf("%s says:\n%s", argv, out)
		}
	})
	h.t.Cleanup(stop)
	return stop
}

// submit submits a handler job of type echo to the queue.
func (h *house) submit(queue, payload string, change func(*carillon.Definition)) carillon.JobID {
	h.t.Helper()
	def := carillon.Definition{}
	def.Type, def.Queue, def.Payload, def.Target.Handler = "echo", queue, []byte(payload), &carillon.Handler{}
	def.Retry.Delay, def.Retry.Jitter = carillon.Zero, carillon.Zero
	if change != nil {
		change(&def)
	}
	job, err := h.Submit(h.t.Context(), def)
	if err != nil {
		h.t.Fatal(err)
	}
	return job.ID
}

// patience is long enough for a busy machine.
const patience = 3 * time.Minute

// until reads the job's run until it is as wanted.
func (h *house) until(job carillon.JobID, want func(carillon.Run) bool) carillon.Run {
	h.t.Helper()
	var last carillon.Run
	for began := time.Now(); time.Since(began) < patience; {
		for run, err := range h.RunsOf(h.t.Context(), carillon.RunQuery{Job: job}) {
			if err != nil {
				h.t.Fatal(err)
			}
			detail, err := h.Run(h.t.Context(), run.ID)
			last = detail.Run
			if err != nil {
				h.t.Fatal(err)
			}
			if want(last) {
				return last
			}
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-h.t.Context().Done():
		}
	}
	h.t.Fatalf("the run stays as it is: %+v", last)
	return last
}

func (h *house) ended(job carillon.JobID) carillon.Run {
	h.t.Helper()
	return h.until(job, func(run carillon.Run) bool { return run.State.Ended() })
}

func (h *house) printed(run carillon.RunID) (text string) {
	h.t.Helper()
	for line, err := range h.Logs(h.t.Context(), run, client.LogQuery{}) {
		if err != nil {
			h.t.Fatal(err)
		}
		text += line.Text + "\n"
	}
	return text
}

// expect checks state, attempts and reason of a run.
func expect(t *testing.T, run carillon.Run, state carillon.State, attempts int32, reason string) {
	t.Helper()
	if run.State != state || run.Attempt != attempts || !strings.Contains(run.Reason, reason) {
		t.Errorf(
			"it is %s after %d attempts: %q; want %s after %d: %q", run.State, run.Attempt, run.Reason, state,
			attempts, reason,
		)
	}
}

func held(run carillon.Run) bool { return run.State.Held() }

func running(run carillon.Run) bool { return run.State == carillon.StateRunning }

// expectTimes checks that a worker reports times that are exact enough: a run was claimed, then started, then
// ended.
func expectTimes(t *testing.T, run carillon.Run) {
	t.Helper()
	if run.Started < run.Claimed || run.Ended != 0 && run.Ended < run.Started {
		t.Errorf("claimed at %s, started at %s, ended at %s", run.Claimed, run.Started, run.Ended)
	}
}

func TestTheWorkerInPython(t *testing.T) {
	t.Parallel()
	need(t, "python3")
	h := newHouse(t)
	stop := h.start("python3", "python/worker.py", "python", "spare")
	good := h.submit("python", `{"a":"ü"}`, nil)
	again := h.submit("spare", `{"fail":1}`, nil)
	never := h.submit("python", `{"refuse":true}`, nil)
	slow := h.submit("python", `{"sleep":600}`, nil)
	brief := h.submit("python", `{"sleep":600}`, func(d *carillon.Definition) {
		d.Timeout, d.Retry.MaxAttempts = carillon.Duration(100*time.Millisecond), 1
	})
	unknown := h.submit("python", `{}`, func(d *carillon.Definition) { d.Type = "nosuch" })
	counted := h.submit("python", `{"to":5,"fail_at":3}`, func(d *carillon.Definition) { d.Type = "count" })

	run := h.ended(good)
	expect(t, run, carillon.StateSucceeded, 1, "")
	var result struct {
		Echo    map[string]string
		Attempt int
	}
	if err := json.Unmarshal(run.Output.Result, &result); err != nil || result.Echo["a"] != "ü" ||
		result.Attempt != 1 {
		t.Errorf("the result is %s", run.Output.Result)
	}
	expectTimes(t, run)
	run = h.ended(again)
	expect(t, run, carillon.StateSucceeded, 2, "")
	expectTimes(t, run)
	text := h.printed(run.ID)
	for _, want := range []string{
		"attempt 1 of echo\n", "RuntimeError: not this time\n", "attempt 2 of echo\n",
	} {
		if strings.Count("\n"+text, "\n"+want) != 1 { // a whole line
			t.Errorf("it printed %q, want %q once", text, want)
		}
	}
	expect(t, h.ended(never), carillon.StateFailed, 1, "not ever")
	expect(t, h.ended(brief), carillon.StateFailed, 1, "time was over")
	waits := h.until(unknown, func(carillon.Run) bool { return true })
	expect(t, waits, carillon.StateWaiting, 0, "")
	detail, err := h.Run(t.Context(), waits.ID)
	if err != nil || detail.WaitsFor == nil || detail.WaitsFor.Kind != client.WaitWorker {
		t.Errorf("a run of a type that no worker knows waits for %+v, %v", detail.WaitsFor, err)
	}
	run = h.ended(counted)
	expect(t, run, carillon.StateSucceeded, 2, "")
	if text := h.printed(run.ID); strings.ReplaceAll(
		string(run.Output.Result), " ", "",
	) != `{"from":3,"to":5}` ||
		!strings.Contains(text, "counting from 0\n") ||
		!strings.Contains(text, "counting from 3\n") {
		t.Errorf(
			"it printed %q, the result is %s: want it to go on from its checkpoint", text, run.Output.Result,
		)
	}
	run = h.until(slow, running)
	expectTimes(t, run)
	if _, err := h.CancelRun(t.Context(), run.ID); err != nil {
		t.Fatal(err)
	}
	expect(t, h.ended(slow), carillon.StateCanceled, 1, "")
	stop()
	h.gone("python:")
}

func TestTheWorkerInShell(t *testing.T) {
	t.Parallel()
	need(t, "curl", "setsid")
	h := newHouse(t)
	program := filepath.Join(t.TempDir(), "program")
	text := `#!/bin/sh
read -r task
printf '%s\n' "got $task" 'and a "quote" \ with	a tab'
case $task in
*sleep*) sleep 600 & wait ;;
*refuse*) exit 100 ;;
*fail*'"attempt":1'* | *'"attempt":1'*fail*) exit 3 ;;
esac
`
	if err := os.WriteFile(program, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	stop := h.start("shell/worker.sh", "shell", program)
	slow := h.submit("shell", `{"sleep":600}`, nil)
	run := h.until(slow, running)
	expectTimes(t, run)
	if _, err := h.CancelRun(t.Context(), run.ID); err != nil {
		t.Fatal(err)
	}
	expect(t, h.ended(slow), carillon.StateCanceled, 1, "")
	good := h.submit("shell", `{"a":"ü, \"x\""}`, nil)
	again := h.submit("shell", `{"fail":1}`, nil)
	never := h.submit("shell", `{"refuse":true}`, nil)
	run = h.ended(good)
	expect(t, run, carillon.StateSucceeded, 1, "")
	expectTimes(t, run)
	if text := h.printed(run.ID); !strings.Contains(text, `"payload":{"a":"ü, \"x\""}`) ||
		!strings.Contains(text, `and a "quote" \ with a tab`) {
		t.Errorf("it printed %q", text)
	}
	expect(t, h.ended(again), carillon.StateSucceeded, 2, "")
	expect(t, h.ended(never), carillon.StateFailed, 1, "exit code 100")
	stop()
	h.gone("shell:")
}

func TestTheWorkerInGo(t *testing.T) {
	t.Parallel()
	need(t, "go")
	h := newHouse(t)
	program := filepath.Join(t.TempDir(), "worker")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./go")
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	stop := h.start(program, "go")
	slow := h.submit("go", `{"sleep":600}`, nil)
	run := h.until(slow, held)
	if _, err := h.CancelRun(t.Context(), run.ID); err != nil {
		t.Fatal(err)
	}
	good := h.submit("go", `{"a":"ü"}`, nil)
	again := h.submit("go", `{"fail":1}`, nil)
	never := h.submit("go", `{"refuse":true}`, nil)
	brief := h.submit("go", `{"sleep":600}`, func(d *carillon.Definition) {
		d.Timeout, d.Retry.MaxAttempts = carillon.Duration(100*time.Millisecond), 1
	})
	run = h.ended(good)
	expect(t, run, carillon.StateSucceeded, 1, "")
	if text := h.printed(run.ID); text != "attempt of echo\n" || string(run.Output.Result) != `{"a":"ü"}` {
		t.Errorf("it printed %q, the result is %s", text, run.Output.Result)
	}
	expect(t, h.ended(again), carillon.StateSucceeded, 2, "")
	expect(t, h.ended(never), carillon.StateFailed, 1, "not ever")
	expect(t, h.ended(brief), carillon.StateFailed, 1, "timed out")
	expect(t, h.ended(slow), carillon.StateCanceled, 1, "")
	stop()
	h.gone("go")
}

// gone checks that a stopped worker has left.
func (h *house) gone(name string) {
	h.t.Helper()
	members, err := h.Members(h.t.Context())
	if err != nil {
		h.t.Fatal(err)
	}
	for _, m := range members {
		if strings.HasPrefix(m.Addr, name) {
			h.t.Errorf("%s is still there", m.Addr)
		}
	}
}

// The two loops of the script exchange files, and each can read them at any time.
func TestTheWorkerInShellNeverReadsAHalfWrittenFile(t *testing.T) {
	t.Parallel()
	script, err := os.ReadFile("shell/worker.sh")
	if err != nil {
		t.Fatal(err)
	}
	if bad := regexp.MustCompile(
		`>"\$work/(lease|holds|worker|pid|halted)"`,
	).FindString(string(script)); bad != "" {
		t.Errorf("%s is emptied before it is written", bad)
	}
	put := regexp.MustCompile(`(?s)\nput\(\) \{.*?\n\}\n`).FindString(string(script))
	// The script reads the lease once more at the end: the last round of its loop may have begun
	// before the last put.
	race := `set -u; work=$1; loop=main` + put + `
put lease 1
{ for i in 1 2 3 4 5; do for k in 1 2 3 4 5 6 7 8 9 0; do put lease "$i$k"; done; done; touch "$work/end"; } &
while [ ! -e "$work/end" ]; do age=$((100 - $(cat "$work/lease"))); done
echo $((100 - $(cat "$work/lease")))`
	out, err := exec.CommandContext(t.Context(), "sh", "-c", race, "race", t.TempDir()).CombinedOutput()
	if got := strings.TrimSpace(string(out)); err != nil || got != "50" {
		t.Errorf("%v: %s", err, out)
	}
}
