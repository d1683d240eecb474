package node

import (
	"context"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/adapter/disk"
	"github.com/carillon-run/carillon/adapter/mem"
	"github.com/carillon-run/carillon/executor"
	"github.com/carillon-run/carillon/porttest/server"
)

// performed waits for the run that a handler names.
func performed(t *testing.T, ran <-chan carillon.RunID) carillon.RunID {
	t.Helper()
	select {
	case run := <-ran:
		return run
	case <-time.After(hang):
		t.Fatal("the run does not begin")
		return carillon.RunID{}
	}
}

// queueOf is a carrier whose other end is a queue in the same process.
type queueOf struct {
	queue   carillon.Queue
	carried atomic.Int64
}

func (c *queueOf) Fetch(ctx context.Context, want carillon.Demand) ([]carillon.Run, error) {
	want.Spare = true
	runs, err := c.queue.Pull(ctx, want)
	c.carried.Add(int64(len(runs)))
	return runs, err
}

// usedTimeline counts the runs that are added to it.
type usedTimeline struct {
	carillon.Timeline
	added atomic.Int64
}

func (u *usedTimeline) Add(ctx context.Context, runs []carillon.Run) ([]int, error) {
	u.added.Add(int64(len(runs)))
	return u.Timeline.Add(ctx, runs)
}

func TestANodeIsBuiltOnTheAdaptersOfTheCaller(t *testing.T) {
	store, logs, coordinator := mem.NewStore(), mem.NewLogs(), mem.NewCoordinator()
	idle, busy := mem.NewQueue(mem.QueueConfig{}), mem.NewQueue(mem.QueueConfig{})
	carrier := &queueOf{queue: idle}
	timeline := &usedTimeline{Timeline: mem.NewTimeline(mem.TimelineConfig{})}
	backend := Backend{Store: store, Shared: true, Logs: logs, Coordinator: coordinator}

	backend.Queue, backend.Timeline = idle, timeline
	a := open(t, Config{Data: t.TempDir(), Backend: backend, Concurrency: -1})
	start(t, a)
	ran := make(chan carillon.RunID, 1)
	backend.Queue, backend.Carrier, backend.Timeline = busy, carrier, nil
	b := open(t, Config{Data: t.TempDir(), Backend: backend, Handlers: map[string]executor.Handler{
		"test": func(_ context.Context, task executor.Task) error {
			task.Print("stdout", "hello")
			ran <- task.Run.ID
			return nil
		},
	}})
	stop := start(t, b)

	var run carillon.RunID
	// A node can also load a run from the store before the carrier brings it.
	until(t, "a run goes through the timeline and the carrier", func() bool {
		if _, err := a.Submit(t.Context(), definition("test", 100*time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		run = performed(t, ran)
		return carrier.carried.Load() > 0 && timeline.added.Load() > 0
	})
	members, _, err := coordinator.Members(t.Context(), carillon.MemberQuery{})
	if err != nil || len(members) != 3 {
		t.Errorf("%d members, %v: want two nodes and a worker", len(members), err)
	}
	stop()
	lines, err := logs.Read(t.Context(), carillon.LogQuery{Namespace: "default", Run: run})
	if err != nil || len(lines) != 1 || lines[0].Text != "hello" {
		t.Errorf("the log is %+v, %v", lines, err)
	}
}

func TestAdaptersAreNamedApartFromTheStore(t *testing.T) {
	for name, c := range map[string]struct {
		cfg  Config
		want string
	}{
		"no such store": {Config{Store: "oracle://db"}, `store: "oracle://db" is not valid: want postgres://…`},
		"no such logs":  {Config{Logs: "s3://bucket"}, `logs: "s3://bucket" is not valid: want store, postgres://…`},
		"no such coordinator": {
			Config{Coordinator: "etcd://host"}, `coordinator: "etcd://host" is not valid: want store, postgres://…`,
		},
		"no such timeline": {Config{Timeline: "redis://host"}, `timeline: "redis://host" is not valid: want mem:`},
		"no such carrier":  {Config{Carrier: "kafka://host"}, `carrier: "kafka://host" is not valid: want http`},
		"logs in a store that keeps none": {
			Config{Logs: "store"}, `logs: "store" is not valid for a store that is no database: want disk:PATH`,
		},
		"sessions in a store that keeps none": {
			Config{Coordinator: "store"}, `coordinator: "store" is not valid for a store that one node has for itself: want mem:`,
		},
		"a name beside an adapter": {
			Config{Logs: "mem:", Backend: Backend{Logs: mem.NewLogs()}},
			`logs: "mem:" is not valid beside an adapter in Backend: want one of the two`,
		},
		"a shared store without logs": {
			Config{Backend: Backend{Store: mem.NewStore(), Shared: true}},
			`logs: none are given for a store that nodes share: want Backend.Logs`,
		},
		"files for a shared store": {
			Config{Logs: "disk:", Backend: Backend{Store: mem.NewStore(), Shared: true}},
			`logs: "disk:" is not valid for a store that nodes share`,
		},
		"a shared store without a coordinator": {
			Config{Backend: Backend{Store: mem.NewStore(), Shared: true, Logs: mem.NewLogs()}},
			`coordinator: none is given for a store that nodes share: want Backend.Coordinator`,
		},
		"sessions in memory for a shared store": {
			Config{
				Coordinator: "mem:", Backend: Backend{Store: mem.NewStore(), Shared: true, Logs: mem.NewLogs()},
			},
			`coordinator: "mem:" is not valid for a store that nodes share`,
		},
		"a carrier without other nodes": {
			Config{Backend: Backend{Carrier: &queueOf{}}}, `carrier: one is given, and no other node uses the store`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.cfg.Data, c.cfg.Logger = t.TempDir(), quiet
			n, err := Open(t.Context(), c.cfg)
			if err == nil {
				n.shut()
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
}

func TestLogsInADirectoryOfTheirOwn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "output")
	cfg := Config{
		Data: t.TempDir(), Logs: "disk:" + path, Coordinator: "mem:", Timeline: "mem:", Carrier: "http",
		Handlers: map[string]executor.Handler{"test": func(_ context.Context, task executor.Task) error {
			task.Print("stdout", "hello")
			return nil
		}},
	}
	n := open(t, cfg)
	stop := start(t, n)
	jobs, err := n.Submit(t.Context(), definition("test", 0))
	if err != nil {
		t.Fatal(err)
	}
	page, err := n.Store().FindRuns(t.Context(), carillon.RunQuery{
		Namespace: "default", Job: jobs[0].ID, Limit: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	cfg.Data = t.TempDir()
	if _, err := Open(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "is in use by") {
		t.Errorf("a second node with the same logs: %v", err)
	}
	stop()
	logs, err := disk.NewLogs(path, disk.Config{})
	if err != nil {
		t.Fatal(err)
	}
	query := carillon.LogQuery{Namespace: "default", Run: page.Runs[0].ID}
	lines, err := logs.Read(t.Context(), query)
	if err != nil || len(lines) != 1 || lines[0].Text != "hello" {
		t.Errorf("the log is %+v, %v", lines, err)
	}
}

func TestLogsAndSessionsInAnotherDatabaseThanTheStore(t *testing.T) {
	store, other := server.Postgres(t), server.MariaDB(t)
	cfg := Config{
		Data: t.TempDir(), Store: store.URL, Logs: other.URL, Coordinator: other.URL, Concurrency: -1,
		Listen: "127.0.0.1:0",
	}
	a := open(t, cfg)
	stopFirst := start(t, a)
	ran := make(chan carillon.RunID, 1)
	cfg.Data, cfg.Concurrency = t.TempDir(), 1
	cfg.Handlers = map[string]executor.Handler{"test": func(_ context.Context, task executor.Task) error {
		task.Print("stdout", "hello")
		ran <- task.Run.ID
		return nil
	}}
	stop := start(t, open(t, cfg))
	until(t, "the nodes know each other", func() bool { return len(a.scheduler.Members()) == 3 })
	if _, err := a.Submit(t.Context(), definition("test", time.Second)); err != nil {
		t.Fatal(err)
	}
	run := performed(t, ran)
	stop()
	cfg.Data, cfg.Coordinator = t.TempDir(), "store"
	if _, err := Open(t.Context(), cfg); err == nil ||
		!strings.Contains(err.Error(), `coordinator: "store" is not valid while other nodes of this store use "`) {
		t.Errorf("a node with its sessions elsewhere is not refused: %v", err)
	}
	lines, err := a.backend.Logs.Read(t.Context(), carillon.LogQuery{Namespace: "default", Run: run})
	if err != nil || len(lines) != 1 || lines[0].Text != "hello" {
		t.Errorf("the log is %+v, %v", lines, err)
	}
	stopFirst()
	open(t, cfg) // no other node is left
}
