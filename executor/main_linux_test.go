package executor

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/carillon-run/carillon"
)

// TestMain is also the main of the processes that tests start: supervisors, and stand-ins for workers.
func TestMain(m *testing.M) {
	if os.Getenv("TEST_ROLE") == "forgetful" {
		forgetful() // an application that does not call Supervise
	}
	Supervise()
	switch os.Getenv("TEST_ROLE") {
	case "worker":
		standIn()
	case "sudo":
		sudo()
	}
	flag.Parse()
	_ = flag.Set("test.parallel", "8") // tests wait for leases and processes, not for processors
	fuzzing := flag.Lookup("test.fuzz").Value.String() != ""
	before := runtime.NumGoroutine()
	code := m.Run()
	if left := leaked(before); code == 0 && left != "" && !fuzzing {
		fmt.Fprintln(os.Stderr, "goroutines are left over:\n"+left)
		code = 1
	}
	os.Exit(code)
}

// worker is a separate process that runs one command, as a worker would.
type worker struct {
	Shell string
	Env   map[string]string
	Temp  string
	Leash string
	Lease time.Duration // extended all the time; 0: none

	UID         int // the user it runs as; 0: the user of the test
	AllowSetuid bool

	said logLines
}

// standIn is the main of a worker process.
func standIn() {
	var w worker
	if err := json.Unmarshal([]byte(os.Getenv("TEST_WORKER")), &w); err != nil {
		panic(err)
	}
	leash, err := HoldLeash(context.Background(), w.Leash)
	if err != nil {
		panic(err)
	}
	task, _ := newTask(carillon.Target{Command: &carillon.Command{Shell: w.Shell, Env: w.Env}})
	if w.Lease > 0 {
		task.Lease = &Lease{}
		task.Lease.Extend(Boottime() + w.Lease)
		go func() {
			for range time.Tick(w.Lease / 20) {
				task.Lease.Extend(Boottime() + w.Lease)
			}
		}()
	}
	task.Print = func(stream, line string) {
		if stream == remark {
			fmt.Println(line)
		}
	}
	config := CommandConfig{
		TempDir: w.Temp, Leash: leash, AllowSetuid: w.AllowSetuid, Grace: 10 * time.Millisecond,
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR1) // the run times out
	go func() { <-signals; cancel(ErrTimeout) }()
	o := NewCommand(config).Execute(ctx, task)
	fmt.Printf("%d %s\n", o.Kind, o.Reason)
	syscall.Exit(0)
}

// logLines takes a worker's log: it keeps lines for a test that waits for them, and writes them to the test's
// own log.
type logLines chan string

func (l logLines) Write(b []byte) (int, error) {
	select {
	case l <- string(b):
	default:
	}
	return os.Stderr.Write(b)
}

// start runs the worker. Its standard output has the outcome as the worker sees it, and Carillon's remarks in
// the run's log.
func (w *worker) start(t *testing.T) (*exec.Cmd, *strings.Builder) {
	t.Helper()
	spec, err := json.Marshal(w)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe")
	out := &strings.Builder{}
	w.said = make(logLines, 100)
	cmd.Env, cmd.Stdout, cmd.Stderr = append(
		os.Environ(), "TEST_ROLE=worker", "TEST_WORKER="+string(spec),
	), out, w.said
	if w.UID != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Credential: &syscall.Credential{Uid: uint32(w.UID), Gid: uint32(w.UID)},
		}
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd, out
}

// forgetful is the main of an application that does not call Supervise.
func forgetful() {
	task, _ := newTask(shell("true"))
	o := NewCommand(CommandConfig{}).Execute(context.Background(), task)
	fmt.Printf("%d %s\n", o.Kind, o.Reason)
	syscall.Exit(0)
}

// lifeline is a named pipe that every process of a tree holds open for writing: it ends when the last process
// ends.
type lifeline struct {
	path        string
	read, write *os.File
}

func newLifeline(t *testing.T) *lifeline {
	t.Helper()
	return newLifelineIn(t, t.TempDir())
}

func newLifelineIn(t *testing.T, dir string) *lifeline {
	t.Helper()
	l := &lifeline{path: dir + "/lifeline"}
	if err := unix.Mkfifo(l.path, 0o600); err != nil {
		t.Fatal(err)
	}
	var err error
	if l.read, err = os.OpenFile(l.path, os.O_RDONLY|unix.O_NONBLOCK, 0); err != nil {
		t.Fatal(err)
	}
	if l.write, err = os.OpenFile(l.path, os.O_WRONLY, 0); err != nil { // until the tree holds it
		t.Fatal(err)
	}
	t.Cleanup(func() { l.read.Close(); l.write.Close() })
	return l
}

// env and holdOn are for the command: holdOn opens the lifeline and reports that it did.
func (l *lifeline) env() map[string]string { return map[string]string{"LIFELINE": l.path} }

const holdOn = `exec 9>"$LIFELINE"; echo ready >&9; `

// ready waits until n processes hold the lifeline, at least for one word of them, and returns what they said.
func (l *lifeline) ready(t *testing.T, n int) (said string) {
	t.Helper()
	_ = l.read.SetReadDeadline(time.Now().Add(hang))
	buf := make([]byte, 4096)
	for said == "" || strings.Count(said, "ready") < n {
		m, err := l.read.Read(buf)
		if err != nil {
			t.Fatalf("%q of %d processes: %s", said, n, err)
		}
		said += string(buf[:m])
	}
	return said
}

// gone waits for the end of the last process.
func (l *lifeline) gone(t *testing.T) {
	t.Helper()
	l.write.Close()
	_ = l.read.SetReadDeadline(time.Now().Add(hang))
	buf := make([]byte, 64<<10)
	for {
		if n, err := l.read.Read(buf); n == 0 {
			if err.Error() != "EOF" {
				t.Fatalf("processes are left: %s", err)
			}
			return
		}
	}
}

func holdLeashOf(t *testing.T, path string) *os.File {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), hang)
	defer cancel()
	f, err := HoldLeash(ctx, path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func unsetCloseOnExec(t *testing.T, f *os.File) {
	t.Helper()
	if _, err := unix.FcntlInt(f.Fd(), unix.F_SETFD, 0); err != nil {
		t.Fatal(err)
	}
}

func forgetfulSays(t *testing.T) string {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "TEST_ROLE=forgetful")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
