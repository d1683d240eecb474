package executor

import (
	"bytes"
	"context"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
)

// hang is the time after which a test that waits gives up. It judges nothing: it is far above what a busy
// machine needs.
const hang = 2 * time.Minute

// leaked gives goroutines that are ending a moment to end.
func leaked(before int) string {
	for deadline := time.Now().Add(hang / 4); runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Now().After(deadline) {
			buf := make([]byte, 1<<20)
			return string(buf[:runtime.Stack(buf, true)])
		}
	}
	return ""
}

// record is what an attempt printed and saved.
type record struct {
	mu    sync.Mutex
	lines []string // "stdout: text"
	saved []string
	said  chan string // the same lines, for tests that wait for one
	saves chan string
}

// newTask is a first attempt of a job with the given target.
func newTask(target carillon.Target) (Task, *record) {
	r := &record{said: make(chan string, 1000), saves: make(chan string, 100)}
	job := &carillon.Job{
		ID: 42, Namespace: "default",
		Definition: carillon.Definition{Name: "a name", Type: "a.type", Target: target},
	}
	run := carillon.Run{
		ID: carillon.RunID{Job: 42, Due: 1_774_000_000_000}, Namespace: "default", Attempt: 3,
		Covers: 1_774_000_000_000,
	}
	return Task{Run: run, Job: job, Print: r.print, Save: r.save}, r
}

func (r *record) print(stream, line string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, stream+": "+line)
	select {
	case r.said <- stream + ": " + line:
	default:
	}
}

func (r *record) save(_ context.Context, b []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.saved = append(r.saved, string(b))
	select {
	case r.saves <- string(b):
	default:
	}
	return nil
}

func (r *record) output() string { return strings.Join(r.lines, "\n") }

// until waits for a line and fails the test if it does not come.
func (r *record) until(t *testing.T, want string) {
	t.Helper()
	receive(t, r.said, want)
}

func receive(t *testing.T, from <-chan string, want string) {
	t.Helper()
	timeout := time.After(hang)
	for {
		select {
		case got := <-from:
			if got == want {
				return
			}
		case <-timeout:
			t.Fatalf("%q did not come", want)
		}
	}
}

// within fails the test when f does not return; the limit is far above what it should take.
func within[T any](t *testing.T, f func() T) T {
	t.Helper()
	done := make(chan T, 1)
	go func() { done <- f() }()
	select {
	case v := <-done:
		return v
	case <-time.After(hang):
		buf := make([]byte, 1<<20)
		t.Fatalf("it does not return\n%s", bytes.TrimSpace(buf[:runtime.Stack(buf, true)]))
		panic("unreachable")
	}
}

func same(t *testing.T, got, want carillon.Outcome) {
	t.Helper()
	var gotResult, wantResult string
	if got.Output != nil {
		gotResult = string(got.Output.Result)
	}
	if want.Output != nil {
		wantResult = string(want.Output.Result)
	}
	if got.Kind != want.Kind || got.Reason != want.Reason || got.RetryAfter != want.RetryAfter ||
		got.Exit != want.Exit || got.Status != want.Status || gotResult != wantResult {
		t.Fatalf("got %+v with result %q\nwant %+v with result %q", got, gotResult, want, wantResult)
	}
}
