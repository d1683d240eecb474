// Command carillon is how bench/peers measures Carillon itself: a node in this process, as an application embeds it.
//
//	carillon carillon-sqlite     the embedded store in DIR
//	carillon carillon-postgres   the database POSTGRES
//	carillon carillon-http       the same, but whoever hands in and the worker that runs jobs talk to the node over HTTP
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
	// slots is how many no-op handlers may run at once: they end at once, so this is how many claims can be on their way.
	slots = 4000
	// nobody runs anything: the node keeps jobs.
	nobody = -1
	day    = 24 * time.Hour
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

// system is a node that is opened when it is first needed: one that runs nothing until work is asked for.
type system struct {
	name    string
	started atomic.Pointer[peer.Recorder]
	asking  *pgx.Conn   // of Unfinished
	recurs  atomic.Bool // jobs here recur, and have no due time in their payload

	mu      sync.Mutex // guards what follows, while it is opened
	node    *node.Node
	stop    func() error
	working bool
	http    *desk // of carillon-http
}

func (s *system) Hello() peer.Hello {
	h := peer.Hello{
		Name: s.name, Version: version(), Engine: "postgres",
		Settings: fmt.Sprintf("embedded node, %d slots; bulk: 4 callers with 1000 jobs each", slots),
		Durable:  "on disk (synchronous commit)",
		History: "every run, with its counts of attempts and its last attempt, kept. In a burst further starts go first: if the process is killed then, what had ended and was not " +
			"yet recorded (at most some 100,000 small runs on SQLite, 20,000 on PostgreSQL) runs again",
	}
	switch s.name {
	case "carillon-sqlite":
		h.Engine = "sqlite"
	case "carillon-http":
		h.Settings = fmt.Sprintf("node, callers and worker of %d slots, in one process, talk over HTTP; callers share one Go client, which joins what they hand in at the same time; bulk: 4 callers with 1000 jobs each", slots)
	}
	return h
}

// version is that of the sources that this program was built from.
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

// open opens the node if it is not open yet. One that runs nothing is replaced by one that does when work is asked for.
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
		Data: os.Getenv("DIR"), Concurrency: nobody,
		Handlers: map[string]executor.Handler{"bench": s.handle},
		Logger:   logger(),
	}
	if s.name != "carillon-sqlite" { // several processes share the database, but none of them a directory
		cfg.Store, cfg.Data = os.Getenv("POSTGRES"), filepath.Join(cfg.Data, fmt.Sprintf("node-%d", os.Getpid()))
	}
	if s.name == "carillon-http" {
		cfg.Listen = "127.0.0.1:0"
	}
	return cfg
}

func logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
}

// Close leaves in good order: others would wait for a node that is merely gone.
func (s *system) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shut()
}

// shut is called with mu held.
func (s *system) shut() error {
	if s.node == nil {
		return nil
	}
	if s.http != nil { // whoever talks to the node goes first
		s.http.stop()
	}
	err := s.stop()
	s.node, s.working, s.http = nil, false, nil
	return err
}

// handle is the job. Of one that recurs the due time of the run counts.
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

// Unfinished asks what wakes within the hour: the wake of a run that a worker has may lie a little ahead, and jobs that
// are not meant are due tomorrow.
func (s *system) Unfinished(ctx context.Context) (int, error) {
	n, err := s.open(false)
	if err != nil {
		return 0, err
	}
	if held, _ := n.Running(); held > 0 { // their ends are not on disk yet: the store need not be asked
		return held, nil
	}
	soon := carillon.Now().Add(time.Hour)
	if s.name != "carillon-sqlite" {
		return s.unfinishedPostgres(ctx, soon)
	}
	runs, err := n.Store().Wakes(ctx, carillon.WakeQuery{Until: soon, Limit: 1})
	return len(runs), err
}

// unfinishedPostgres asks by one statement: its answer is about the moment in which it is asked.
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
CROSS JOIN LATERAL (SELECT FROM carillon.run r WHERE r.shard = s AND r.due <= $2 LIMIT 1) r LIMIT 1) one`, carillon.Shards, int64(until)).Scan(&left)
	return left, err
}

// Held is how many runs the node's worker has whose ends are not on disk. A worker that dials in is not the node's: then nobody
// here knows.
func (s *system) Held() int {
	n, err := s.open(false)
	if err != nil {
		return 0
	}
	held, _ := n.Running()
	return held
}
