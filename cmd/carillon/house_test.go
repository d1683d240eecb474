package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/adapter/mem"
	"github.com/carillon-run/carillon/api"
	"github.com/carillon-run/carillon/executor"
	"github.com/carillon-run/carillon/internal/catalog"
	"github.com/carillon-run/carillon/internal/conductor"
	"github.com/carillon-run/carillon/internal/dispatch"
	"github.com/carillon-run/carillon/internal/idgen"
	"github.com/carillon-run/carillon/internal/ledger"
	"github.com/carillon-run/carillon/internal/operations"
	"github.com/carillon-run/carillon/internal/scheduler"
	"github.com/carillon-run/carillon/worker"
)

var update = flag.Bool("update", false, "write the golden files anew")

const testToken = "a token of the test house"

// house is a real server in a synctest bubble, the command line in front of it, and the transcript of the
// commands. The clock stands still unless a goroutine waits, so ids and times are the same in every run.
type house struct {
	t    *testing.T
	app  app // copied for every command
	env  map[string]string
	in   string
	text bytes.Buffer // the transcript
}

// inHouse runs a script of commands on Saturday 2026-03-28, the day before the clocks change in Berlin, and
// compares the transcript with testdata/<name>.golden; without a name the script itself checks the output.
func inHouse(t *testing.T, name string, script func(h *house)) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 3, 28, 11, 0, 0, 0, time.UTC)))
		h := &house{t: t, env: map[string]string{}}
		listener := newPipes()
		transport := &http.Transport{DialContext: listener.dial}
		data := t.TempDir()
		writePrivateFile(t, filepath.Join(data, "token"), testToken+"\n")
		writePrivateFile(t, filepath.Join(data, "address"), "http://127.0.0.1:8420\n")
		h.env["CARILLON_DATA"] = data
		zone, err := time.LoadLocation("Europe/Berlin")
		if err != nil {
			t.Fatal(err)
		}
		h.app = app{
			env: func(name string) string { return h.env[name] }, now: time.Now, zone: zone,
			http: &http.Client{Transport: transport},
		}

		stop := serveHouse(listener)
		script(h)
		transport.CloseIdleConnections()
		stop()
		if name == "" {
			return
		}
		golden(
			t, name, workerIDs.ReplaceAllString(strings.ReplaceAll(h.text.String(), data, "DATA"), "${1}_1"),
		)
	})
}

// workerIDs are random, so they are replaced in the transcript.
var workerIDs = regexp.MustCompile(`(inner|worker)_[0-9a-f]{20}`)

// serveHouse does what package node does, on adapters that work in a bubble.
func serveHouse(listener net.Listener) (stop func()) {
	store, logs, bus, queue := mem.NewStore(), mem.NewLogs(), mem.NewBus(), mem.NewQueue(mem.QueueConfig{})
	coordinator, quiet := mem.NewCoordinator(), slog.New(slog.DiscardHandler)
	ids := idgen.New(1, carillon.Never)
	door := ledger.New(ledger.Config{Store: store, IDs: ids})
	sched := scheduler.New(scheduler.Config{
		Store: store, Timeline: mem.NewTimeline(mem.TimelineConfig{}), Queue: queue, Coordinator: coordinator,
		Logs: logs, Ledger: door, Logger: quiet,
	})
	counter := dispatch.New(dispatch.Config{
		Store: store, Ledger: door, Queue: queue, Logs: logs, Coordinator: coordinator,
		Redecide: sched.Redecide, PushBack: sched.PushBack, Fill: conductor.NewValues(store, door).Fill,
		Logger: quiet,
	})
	flows := conductor.New(conductor.Config{
		Store: store, Queue: queue, Ledger: door, IDs: ids, Redecide: sched.Redecide, Logger: quiet,
	})
	began := time.Now()
	work := worker.New(worker.Config{
		Dispatcher: dispatch.Local{Dispatcher: counter}, Inside: true,
		Boottime:  func() time.Duration { return time.Since(began) },
		Executors: map[string]executor.Executor{"command": pretend{}}, Logger: quiet,
	})
	known := catalog.New(catalog.Config{Store: store, Ledger: door, Logger: quiet})
	door.UseLimits(known.LimitsOf)
	door.UseGates(known)
	sched.UseGates(known)
	known.Listen(func(before, after *catalog.Snapshot) {
		queue.SetWeights(after.Weights())
		queue.SetNamespaceWeights(after.NamespaceWeights())
		sched.LookAt(after.Lines(before)...)
		sched.GatesChanged()
	})
	door.UseSlots(counter)
	door.Listen(counter.Notice, work.Notice, sched.Route, flows.Notice)
	server := &http.Server{Handler: api.New(api.Config{
		Ledger: door, Store: store, Logs: logs, Events: bus, Catalog: known,
		Tokens: map[string]api.Credential{testToken: {Namespace: carillon.DefaultNamespace, Name: "test"}},
	})}
	ctx, cancel := context.WithCancel(context.Background())
	written, flush := context.WithCancel(context.Background())
	var parts, last sync.WaitGroup
	last.Go(func() { _ = door.Run(written) })
	parts.Go(func() { _ = work.Run(ctx) })
	parts.Go(func() { _ = sched.Run(ctx) })
	parts.Go(func() { _ = flows.Run(ctx) })
	loop := operations.New(operations.Config{Store: store, Ledger: door, Logger: quiet})
	parts.Go(func() { _ = loop.Run(ctx) })
	parts.Go(func() { _ = server.Serve(listener) })
	return func() {
		_ = server.Close()
		cancel()
		parts.Wait()
		flush()
		last.Wait()
	}
}

// pretend runs a few commands that need no process: echo, cat (its payload), give (its argument is the
// result), fail and sleep.
type pretend struct{}

func (pretend) Execute(ctx context.Context, task executor.Task) carillon.Outcome {
	// No two commands end at the same instant, nor at that of a poll: the test cannot control which of them
	// would come first.
	time.Sleep(7*time.Millisecond + time.Duration(task.Run.ID.Job&0xfff)*time.Millisecond)
	argv := task.Job.Target.Command.Argv
	switch argv[0] {
	case "echo":
		task.Print("stdout", strings.Join(argv[1:], " "))
	case "cat":
		task.Print("stdout", string(task.Job.Payload))
	case "give":
		return carillon.Outcome{
			Kind: carillon.OutcomeSuccess, Output: &carillon.Output{Result: []byte(argv[1])},
		}
	case "fail":
		task.Print("stderr", strings.Join(argv[1:], " "))
		return carillon.Outcome{Kind: carillon.OutcomeRetriable, Reason: "exit code 1", Exit: 1}
	case "sleep":
		pause, _ := time.ParseDuration(argv[1])
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			// As with a process: the user who asked it to stop sees it stopping.
			time.Sleep(time.Second)
			return carillon.Outcome{Kind: carillon.OutcomeStopped, Reason: context.Cause(ctx).Error()}
		}
	}
	return carillon.Outcome{Kind: carillon.OutcomeSuccess}
}

// carillon runs a command and adds it to the transcript with its output: standard error behind "!", the exit
// code if not 0.
func (h *house) carillon(args ...string) string {
	h.t.Helper()
	out, code := h.run(args...)
	fmt.Fprintf(&h.text, "$ carillon %s\n%s", quoteAll(args), out)
	if code != 0 {
		fmt.Fprintf(&h.text, "-> %d\n", code)
	}
	h.text.WriteString("\n")
	return out
}

func (h *house) run(args ...string) (string, int) {
	h.t.Helper()
	return h.runIn(h.t.Context(), args...)
}

func (h *house) runIn(ctx context.Context, args ...string) (string, int) {
	var all bytes.Buffer
	a := h.app
	a.in, a.out, a.err = strings.NewReader(h.in), &all, &marked{&all}
	code := a.run(ctx, args)
	return all.String(), code
}

// interrupt is carillon with Ctrl-C after a delay.
func (h *house) interrupt(after time.Duration, args ...string) {
	h.t.Helper()
	ctx, cancel := context.WithCancel(h.t.Context())
	defer time.AfterFunc(after, cancel).Stop()
	out, code := h.runIn(ctx, args...)
	fmt.Fprintf(&h.text, "$ carillon %s\n%s^C -> %d\n\n", quoteAll(args), out, code)
}

// later lets time pass, so that everything due in it happens.
func (h *house) later(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
	fmt.Fprintf(&h.text, "# %s later\n\n", compact(d))
}

// marked puts "! " in front of every line.
type marked struct{ w io.Writer }

func (m *marked) Write(b []byte) (int, error) {
	for line := range bytes.Lines(b) {
		if _, err := fmt.Fprintf(m.w, "! %s", line); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".golden")
	if *update {
		writeTestFile(t, file, got)
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v; run the test with -update to write it", err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("%s differs; -update writes it anew (-want +got):\n%s", file, diff)
	}
}

func writeTestFile(t *testing.T, path, content string) {
	t.Helper()
	if err := errors.Join(
		os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644),
	); err != nil {
		t.Fatal(err)
	}
}

// writePrivateFile is for a data directory: the command line does not trust files there that other users can
// write or read.
func writePrivateFile(t *testing.T, path, content string) {
	t.Helper()
	dir := filepath.Dir(path)
	if err := errors.Join(
		os.MkdirAll(dir, 0o700), os.Chmod(dir, 0o700), os.WriteFile(path, []byte(content), 0o600),
	); err != nil {
		t.Fatal(err)
	}
}

// pipes is a network inside the process: unlike a wait on a socket, a wait on it lets the bubble's clock go
// on.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), closed: make(chan struct{})} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.conns <- there:
		return here, nil
	case <-p.closed:
		return nil, errors.New("connection refused")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.closed) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes"} }
