// Command carillon is how bench/peers measures Carillon itself: a node in this process, as an application
// embeds it.
//
//	carillon carillon-sqlite     the embedded store in DIR
//	carillon carillon-postgres   the database POSTGRES
//	carillon carillon-http       the same, but the callers and the worker talk to the node over HTTP
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/bench/peers/peer"
	"github.com/carillon-run/carillon/executor"
	"github.com/carillon-run/carillon/node"
)

const (
	// slots is how many no-op handlers can run at once: they end at once, so it limits how many claims can be
	// in flight.
	slots = 4000
	// The concurrency of a node that performs no runs and only keeps jobs.
	noWorker = -1
	day      = 24 * time.Hour
)

func main() {
	executor.Supervise()
	name := "carillon-sqlite"
	if len(os.Args) > 1 {
		name = os.Args[1]
	}
	if name != "carillon-sqlite" && name != "carillon-postgres" && name != "carillon-http" {
		fmt.Fprintf(os.Stderr, "%q is none of carillon-sqlite, carillon-postgres and carillon-http\n", name)
		os.Exit(1)
	}
	peer.Serve(&system{name: name})
}

// system is a node that is opened when it is first needed. It performs no runs until the work command.
type system struct {
	name    string
	started atomic.Pointer[peer.Recorder]
	asking  *pgx.Conn   // for Unfinished
	recurs  atomic.Bool // jobs here recur, and have no due time in their payload

	mu      sync.Mutex // guards the fields below, while the node is opened
	node    *node.Node
	stop    func() error
	working bool
	http    *server // for carillon-http
}

func (s *system) Hello() peer.Hello {
	h := peer.Hello{
		Name: s.name, Version: version(), Engine: "postgres",
		Settings: fmt.Sprintf("embedded node, %d slots; bulk: 4 callers with 1000 jobs each", slots),
		Durable:  "on disk (synchronous commit)",
		History: "every run, with its counts of attempts and its last attempt, kept. In a burst further " +
			"starts go first: if the process is killed then, what had ended and was not yet recorded (at " +
			"most 10,000 runs) runs again",
	}
	switch s.name {
	case "carillon-sqlite":
		h.Engine = "sqlite"
	case "carillon-http":
		h.Settings = fmt.Sprintf(
			"node, callers and worker of %d slots, in one process, talk over HTTP; single jobs by "+
				"client.Batcher, so that callers share requests; bulk: 4 callers with 1000 jobs each",
			slots,
		)
	}
	return h
}

// version is the version of the sources of this program.
func version() string {
	out, err := exec.Command("git", "describe", "--tags", "--always", "--dirty").Output()
	if v := strings.TrimSpace(string(out)); err == nil && v != "" {
		return v
	}
	if b, ok := debug.ReadBuildInfo(); ok {
		for _, s := range b.Settings {
			if s.Key == "vcs.revision" {
				return s.Value[:min(len(s.Value), 7)]
			}
		}
	}
	return "unknown"
}

func (s *system) Prepare(context.Context) error {
	_, err := s.open(false)
	return err
}

// open opens the node if it is not open yet. For work it replaces a node that performs no runs with one that
// does.
func (s *system) open(work bool) (*node.Node, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	inside := work && s.name != "carillon-http"
	if s.node != nil && (s.working || !inside) {
		return s.node, nil
	}
	if err := s.shut(); err != nil {
		return nil, err
	}
	cfg := s.config()
	if inside {
		cfg.Concurrency = slots
	}
	ctx, cancel := context.WithCancel(context.Background())
	n, err := node.Open(ctx, cfg)
	if err != nil {
		cancel()
		return nil, err
	}
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	s.node, s.working = n, inside
	s.stop = func() error { cancel(); return <-done }
	if s.name == "carillon-http" {
		s.http, err = dial(n)
	}
	return n, err
}

func (s *system) config() node.Config {
	cfg := node.Config{
		Data: os.Getenv("DIR"), Concurrency: noWorker,
		Handlers: map[string]executor.Handler{"bench": s.handle},
		Logger:   logger(),
	}
	// Several processes share the database, but each has its own directory.
	if s.name != "carillon-sqlite" {
		cfg.Store, cfg.Data = os.Getenv("POSTGRES"), filepath.Join(
			cfg.Data, fmt.Sprintf("node-%d", os.Getpid()),
		)
	}
	if s.name == "carillon-http" {
		cfg.Listen = "127.0.0.1:0"
	}
	return cfg
}

func logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
}

// Close leaves in good order: other nodes would wait for a node that just disappears.
func (s *system) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shut()
}

// shut needs mu held.
func (s *system) shut() error {
	if s.node == nil {
		return nil
	}
	if s.http != nil { // clients of the node stop before it
		s.http.stop()
	}
	err := s.stop()
	s.node, s.working, s.http = nil, false, nil
	return err
}

// handle is the job. For a recurring job the due time of the run counts.
func (s *system) handle(_ context.Context, task executor.Task) error {
	r := s.started.Load()
	switch {
	case r == nil:
	case s.recurs.Load():
		r.At(time.Now(), peer.Job{Due: task.Run.ID.Due.Std().UnixMicro()})
	default:
		r.Start(task.Job.Payload)
	}
	return nil
}

func (s *system) Work(ctx context.Context, started *peer.Recorder) error {
	s.started.Store(started)
	if _, err := s.open(true); err != nil {
		return err
	}
	if s.http != nil {
		return s.http.work(s.handle)
	}
	return nil
}

// Unfinished asks for runs that wake (on PostgreSQL: that are due) within the hour: the wake of a run that a
// worker has can be a little ahead, and all jobs that do not count here are due tomorrow.
func (s *system) Unfinished(ctx context.Context) (int, error) {
	n, err := s.open(false)
	if err != nil {
		return 0, err
	}
	// Their ends are not on disk yet, so there is no need to ask the store.
	if held, _ := n.Running(); held > 0 {
		return held, nil
	}
	soon := carillon.Now().Add(time.Hour)
	if s.name != "carillon-sqlite" {
		return s.unfinishedPostgres(ctx, soon)
	}
	runs, err := n.Store().Wakes(ctx, carillon.WakeQuery{Until: soon, Limit: 1})
	return len(runs), err
}

// unfinishedPostgres asks with one statement, so that the answer is about the moment of the question.
func (s *system) unfinishedPostgres(ctx context.Context, until carillon.Time) (left int, err error) {
	if s.asking == nil {
		conn, err := pgx.Connect(ctx, os.Getenv("POSTGRES"))
		if err != nil {
			return 0, err
		}
		if _, err := conn.Exec(ctx, `SET enable_seqscan = off; SET enable_bitmapscan = off`); err != nil {
			return 0, err
		}
		s.asking = conn
	}
	err = s.asking.QueryRow(ctx, `SELECT count(*) FROM (SELECT FROM generate_series(0, $1::int - 1) s
CROSS JOIN LATERAL (SELECT FROM carillon.run r WHERE r.shard = s AND r.due <= $2 LIMIT 1) r
  LIMIT 1) one`, carillon.Shards, int64(until)).Scan(&left)
	return left, err
}

// Held is how many runs the node's own worker has whose ends are not on disk. It does not count the runs of a
// worker that dials in, which this process does not know.
func (s *system) Held() int {
	n, err := s.open(false)
	if err != nil {
		return 0
	}
	held, _ := n.Running()
	return held
}
