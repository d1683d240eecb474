package chaos

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/chaos/check"
	"github.com/carillon-run/carillon/chaos/proxy"
	"github.com/carillon-run/carillon/client"
	"github.com/carillon-run/carillon/executor"
	"github.com/carillon-run/carillon/worker"
)

var seed = flag.Uint64("seed", 0, "seed of random choices (default: a new one, printed)")

// random makes random choices that -seed repeats.
func random(t *testing.T) *rand.Rand {
	t.Helper()
	return rand.New(rand.NewPCG(seedOf(t), 1))
}

// seedOf is the seed of a test.
func seedOf(t *testing.T) uint64 {
	t.Helper()
	s := *seed
	if s == 0 {
		s = rand.Uint64()
	}
	t.Logf("-seed %d", s)
	return s
}

// TestMain is also the body of the jobs, and a worker with handlers: the binary re-executes itself as these.
func TestMain(m *testing.M) {
	var err error
	switch {
	case os.Getenv("WITNESS") != "":
		err = Body(os.Getenv("WITNESS"))
	case os.Getenv("HANDLERS") != "":
		err = handle(os.Getenv("HANDLERS"))
	case os.Getenv("TAKERS") != "":
		err = handleTaking(os.Getenv("TAKERS"))
	default:
		syscall.Umask(0o022) // other users must not be able to write in data directories
		os.Exit(test(m))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// test runs the tests. By default it runs more of them at once than there are processors, because they mostly
// wait. It fails if the race detector reported something in a node or a worker, also in one that was killed
// later.
func test(m *testing.M) (code int) {
	parallel := flag.Lookup("test.parallel")
	was := parallel.Value.String()
	flag.Parse()
	if parallel.Value.String() == was {
		_ = parallel.Value.Set("5")
	}
	races, err := os.MkdirTemp("", "carillon-races-")
	if err != nil {
		panic(err)
	}
	os.Setenv("GORACE", "atexit_sleep_ms=0 log_path="+filepath.Join(races, "of"))
	defer func() {
		for _, e := range engines {
			e.stop()
		}
		os.RemoveAll(builtIn) // empty if nothing was built
		code = max(code, reported(races))
		os.RemoveAll(races)
	}()
	return m.Run()
}

// reported prints what the race detector wrote about processes, and returns 1 if there is anything.
func reported(races string) (code int) {
	files, _ := filepath.Glob(filepath.Join(races, "of.*"))
	for _, name := range files {
		text, _ := os.ReadFile(name)
		fmt.Fprintf(os.Stderr, "race detector:\n%s\n", text)
		code = 1
	}
	return code
}

// handle is a worker that performs handler targets and writes witness lines: the main function of another
// process.
func handle(witness string) error {
	handler, err := Handler(witness, os.Getenv("WITNESS_REGISTER"))
	if err != nil {
		return err
	}
	return performing(handler)
}

// handleTaking is a worker for jobs with limits: the main function of another process.
func handleTaking(witness string) error {
	handler, err := takingHandler(witness)
	if err != nil {
		return err
	}
	return performing(handler)
}

func performing(handler executor.Handler) error {
	funcs := executor.NewFuncs()
	funcs.Register(handled, handler)
	dispatcher, err := client.NewDispatcher(client.DispatcherConfig{
		Servers: strings.Split(os.Getenv("SERVERS"), ","), Token: os.Getenv("TOKEN"),
		HTTP: reaches(os.Getenv("ONLY"), os.Getenv("THROUGH")),
	})
	if err != nil {
		return err
	}
	slots, err := strconv.Atoi(cmp.Or(os.Getenv("SLOTS"), "32"))
	if err != nil {
		return err
	}
	keep, err := strconv.Atoi(cmp.Or(os.Getenv("KEEP"), "0"))
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	return worker.New(worker.Config{
		Dispatcher: dispatcher, Name: os.Getenv("NAME"), Queues: strings.Split(os.Getenv("QUEUES"), ","),
		Concurrency: slots, Keep: keep, Drain: 4 * time.Second,
		Executors: map[string]executor.Executor{"handler": funcs},
	}).Run(ctx)
}

// reaches is an HTTP client for a worker that can reach only one node, or reaches all nodes through a proxy;
// nil, for any node, if both addresses are empty.
func reaches(only, through string) *http.Client {
	if only == "" && through == "" {
		return nil
	}
	dial := func(ctx context.Context, network, to string) (net.Conn, error) {
		switch {
		case through != "":
			return proxy.DialThrough(ctx, through, to)
		case to != only:
			return nil, fmt.Errorf("%s is out of reach: want %s", to, only)
		}
		return (&net.Dialer{}).DialContext(ctx, network, to)
	}
	return &http.Client{Transport: &http.Transport{
		DialContext: dial, MaxIdleConnsPerHost: 16, IdleConnTimeout: 10 * time.Second,
	}}
}

// builtIn is the directory with the program under test, which binary builds once: with the race detector if
// GOFLAGS says so, as in make test.
var builtIn string

var binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "carillon-chaos-")
	if err != nil {
		return "", err
	}
	builtIn = dir
	build := exec.Command("go", "build", "-o", filepath.Join(dir, "carillon"), "../cmd/carillon")
	if out, err := build.CombinedOutput(); err != nil {
		return dir, fmt.Errorf("build carillon: %w\n%s", err, out)
	}
	return filepath.Join(dir, "carillon"), nil
})

func buildBinary(t *testing.T) string {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// witnessed is a job whose body is this binary.
func witnessed(witness string, d time.Duration) carillon.Definition {
	self, _ := os.Executable()
	def := carillon.Definition{}
	def.Name = "witness"
	def.Target.Command = &carillon.Command{Argv: []string{self}, Env: map[string]string{
		"WITNESS": witness, "WITNESS_FOR": d.String(),
		// The race detector would make every body last a second longer.
		"GORACE": "atexit_sleep_ms=0",
	}}
	// Every kill ends all running attempts: none of them is to blame.
	def.Retry.MaxCrashes = 1000
	def.Retry.MaxAttempts = 5
	return def
}

// poll waits until another process has done something; there is no event for that here.
func poll(t *testing.T, ctx context.Context, what string, done func() bool) {
	t.Helper()
	for !done() {
		if ctx.Err() != nil {
			t.Fatalf("waiting for %s: %v", what, ctx.Err())
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// last waits until a fault has lasted for d: the fault consists of that time.
func last(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

func read(t *testing.T, path string) []check.Line {
	t.Helper()
	lines, err := check.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	return lines
}
