package node

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/executor"
	"github.com/carillon-run/carillon/porttest/server"
)

// onBoth runs a test on both databases.
func onBoth(t *testing.T, play func(t *testing.T, store string)) {
	t.Run("postgres", func(t *testing.T) { t.Parallel(); play(t, server.Postgres(t).URL) })
	t.Run("mariadb", func(t *testing.T) { t.Parallel(); play(t, server.MariaDB(t).URL) })
}

// member starts a node that serves one queue with a handler.
func member(t *testing.T, store, queue string, handle executor.Handler) *Node {
	t.Helper()
	n := open(t, Config{
		Data: t.TempDir(), Store: store, Listen: "127.0.0.1:0", Queues: []string{queue}, Concurrency: 4,
		Handlers: map[string]executor.Handler{"test": handle},
	})
	start(t, n)
	return n
}

// hang is how long a test waits before it gives up. It is no measure of speed: it is far above what a busy
// machine needs.
const hang = 2 * time.Minute

// until polls for something that another process, or a loop of a node, is about to do.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(hang); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %s: %s", hang, what)
		}
	}
}

func TestNodesThatShareADatabaseAreACluster(t *testing.T) {
	onBoth(t, func(t *testing.T, store string) {
		ran := make(chan string, 100)
		handler := func(by string) executor.Handler {
			return func(_ context.Context, task executor.Task) error {
				ran <- by + " " + task.Job.Name
				return nil
			}
		}
		a, b := member(t, store, "a", handler("a")), member(t, store, "b", handler("b"))
		if a.secrets.token != b.secrets.token || a.secrets.node != b.secrets.node ||
			a.number.Key == b.number.Key {
			t.Errorf(
				"tokens %q and %q, numbers %s and %s", a.secrets.token, b.secrets.token, a.number.Key,
				b.number.Key,
			)
		}
		until(t, "each node has its share of the shards", func() bool {
			all := slices.Sorted(slices.Values(append(
				slices.Clone(a.scheduler.Shards()), b.scheduler.Shards()...,
			)))
			return len(all) == carillon.Shards && len(slices.Compact(all)) == carillon.Shards
		})
		want := map[string]bool{}
		// Each node gets jobs for its own queue and for the other's, due now and due in a moment.
		for i, n := range []*Node{a, b, a, b} {
			for _, queue := range []string{"a", "b"} {
				def := definition("test", time.Duration(i/2)*700*time.Millisecond)
				def.Queue, def.Name = queue, fmt.Sprintf("%s%d", queue, i)
				if _, err := n.Submit(t.Context(), def); err != nil {
					t.Fatal(err)
				}
				want[queue+" "+def.Name] = true
			}
		}
		for range len(want) {
			select {
			case got := <-ran:
				if !want[got] {
					t.Errorf("%q ran", got)
				}
				delete(want, got)
			case <-time.After(hang):
				t.Fatalf("did not run: %v", want)
			}
		}
	})
}

func TestARunGoesToTheNodeWhoseWorkerHasTheLabelsThatItNeeds(t *testing.T) {
	onBoth(t, func(t *testing.T, store string) {
		ran := make(chan string, 100)
		member := func(name string, labels map[string]string) *Node {
			n := open(t, Config{
				Data: t.TempDir(), Store: store, Listen: "127.0.0.1:0", Concurrency: 4, Labels: labels,
				Handlers: map[string]executor.Handler{
					"test": func(context.Context, executor.Task) error { ran <- name; return nil },
				},
			})
			start(t, n)
			until(t, "the node is ready", func() bool { return n.ready() == nil })
			return n
		}
		a := member("a", map[string]string{"host": "a", "gpu": "false"})
		submit := func(n *Node, after time.Duration) {
			def := definition("test", after)
			def.Needs = map[string]string{"gpu": "true"}
			if _, err := n.Submit(t.Context(), def); err != nil {
				t.Fatal(err)
			}
		}
		submit(a, 0)
		until(t, "the run is unserved", func() bool { return unserved(a.carry, a.scheduler.Members()) == 1 })
		b := member("b", map[string]string{"host": "b", "gpu": "true"})
		for i := range 10 {
			submit([]*Node{a, b}[i%2], time.Duration(i/4)*300*time.Millisecond)
		}
		for range 11 {
			select {
			case by := <-ran:
				if by != "b" {
					t.Errorf("the worker without the label performed a run")
				}
			case <-time.After(hang):
				t.Fatal("not all runs were performed")
			}
		}
	})
}

func TestANodeThatStopsLeavesItsShardsToTheOthers(t *testing.T) {
	onBoth(t, func(t *testing.T, store string) {
		ran := make(chan carillon.RunID, 10)
		handle := func(_ context.Context, task executor.Task) error { ran <- task.Run.ID; return nil }
		a := open(t, Config{Data: t.TempDir(), Store: store, Listen: "127.0.0.1:0", Concurrency: -1})
		stop := start(t, a)
		until(t, "the node is ready", func() bool { return a.ready() == nil })
		// Only this node has the run in its memory.
		jobs, err := a.Submit(t.Context(), definition("test", 2*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		other := member(t, store, "default", handle)
		// The sweep takes up runs that are overdue by ten seconds. The run above does not wait for the sweep,
		// so it runs before this one.
		if _, err := other.Submit(t.Context(), definition("test", 12*time.Second)); err != nil {
			t.Fatal(err)
		}
		stop()
		select {
		case got := <-ran:
			if got.Job != jobs[0].ID {
				t.Errorf("%s ran first, want the job of the node that stopped", got)
			}
		case <-time.After(hang):
			t.Fatal("the job of a node that stopped does not run")
		}
	})
}

func TestAJobThatIsSubmittedInATransactionIsAdmittedAfterItsCommit(t *testing.T) {
	store := server.Postgres(t).URL
	ran := make(chan carillon.RunID, 10)
	n := member(t, store, "default", func(_ context.Context, task executor.Task) error {
		ran <- task.Run.ID
		return nil
	})
	until(t, "the node is ready", func() bool { return n.ready() == nil })
	conn, err := pgx.Connect(t.Context(), store)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	submit := func(body string, commit bool) (id carillon.JobID) {
		t.Helper()
		tx, err := conn.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var text string
		if err := tx.QueryRow(
			t.Context(), `SELECT carillon.submit($1::jsonb)`, body,
		).Scan(&text); err != nil {
			t.Fatal(err)
		}
		if id, err = carillon.ParseJobID(text); err != nil {
			t.Fatal(err)
		}
		end := tx.Rollback
		if commit {
			end = tx.Commit
		}
		if err := end(t.Context()); err != nil {
			t.Fatal(err)
		}
		return id
	}
	gone := submit(`{"type":"test","target":{"handler":{}}}`, false)
	kept := submit(`{"type":"test","target":{"handler":{}},"payload":{"n":12345678901234567890}}`, true)
	committed := time.Now()
	if got := <-ran; got.Job != kept {
		t.Errorf("%s ran, want %s", got.Job, kept)
	}
	t.Logf("ran %s after its commit", time.Since(committed).Round(time.Millisecond))
	jobs, err := n.Store().Jobs(t.Context(), []carillon.JobVersion{{Job: gone}, {Job: kept}})
	if err != nil || len(jobs) != 1 ||
		strings.ReplaceAll(string(jobs[0].Payload), " ", "") != `{"n":12345678901234567890}` {
		t.Errorf("%+v, %v", jobs, err)
	}
	refused := submit(`{"type":"test","target":{"handler":{}},"schedule":{"cron":"99 * * * *"}}`, true)
	until(t, "the refused one is shown", func() bool {
		list, err := n.backend.Intake.Submissions(t.Context(), carillon.SubmissionQuery{
			Refused: true, Namespace: carillon.DefaultNamespace,
		})
		if err != nil {
			t.Fatal(err)
		}
		return len(list) == 1 && list[0].ID == refused && strings.Contains(list[0].Reason, "schedule.cron")
	})
}

func TestANodeWhoseClockIsWrongIsNotReady(t *testing.T) {
	n := open(t, Config{Data: t.TempDir(), Listen: "127.0.0.1:0"})
	start(t, n)
	until(t, "the node is ready", func() bool { return n.ready() == nil })
	before := carillon.Now()
	n.setClock(measurement{time.Now(), -90 * time.Second, time.Millisecond})
	if err := n.ready(); err == nil || !strings.Contains(err.Error(), "1m30s") {
		t.Errorf("ready: %v", err)
	}
	if now := n.clock.Now(); now > before-80_000 {
		t.Errorf("it decides by %s, not by the store's clock", now)
	}
	resp, err := http.Get(n.URL() + "/readyz")
	if err != nil || resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("%v, %v", resp, err)
	}
	n.setClock(measurement{time.Now(), 300 * time.Millisecond, time.Millisecond})
	if err := n.ready(); err != nil {
		t.Error(err)
	}
	// Of answers that take a second only those count that show a difference larger than that.
	n.setClock(measurement{time.Now(), 700 * time.Millisecond, time.Second})
	if ahead := n.clock.Ahead(); ahead != 300*time.Millisecond {
		t.Errorf("a slow answer has set the clock by %s", ahead)
	}
	n.setClock(measurement{time.Now(), 10 * time.Minute, time.Second})
	if ahead := n.clock.Ahead(); ahead != 10*time.Minute {
		t.Errorf("after a sleep of ten minutes the clock is ahead by %s", ahead)
	}
}

func TestASchemaThatWasAppliedByHandIsTakenAsItIs(t *testing.T) {
	store := server.Postgres(t).URL
	conn, err := pgx.Connect(t.Context(), store)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	script, err := Script(store)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), script, pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	n := open(t, Config{Data: t.TempDir(), Store: store, Listen: "127.0.0.1:0"})
	start(t, n)
	until(t, "the node is ready", func() bool { return n.ready() == nil })
}
