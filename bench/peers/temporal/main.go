// Command temporal is Temporal as bench/peers measures it: its development server on an SQLite file, and a
// worker in this process. A job is a workflow that ends in its first task, which is the least work that
// Temporal can do.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"golang.org/x/sync/errgroup"

	"github.com/carillon-run/carillon/bench/peers/peer"
)

const (
	queue   = "bench"
	callers = 64 // in bulk
	pollers = 16 // of workflow tasks; the default is 2
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == keepServer {
		if err := keep(os.Getenv("DIR")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	t := &temporal{dir: os.Getenv("DIR")}
	// The server of an earlier program has perhaps ended with it. It starts here, before anything is
	// measured.
	if prepared(t.dir) {
		if err := t.connect(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	peer.Serve(t)
}

// temporal is Temporal behind peer.Peer.
type temporal struct {
	dir    string
	alive  *os.File // see hold
	client client.Client
}

func (t *temporal) Hello() peer.Hello {
	return peer.Hello{
		Name: "temporal",
		Version: "server " + serverVersion + " (CLI " + cliVersion + "; newer ones exist), Go SDK " +
			peer.Version("go.temporal.io/sdk"), Engine: "sqlite",
		Settings: fmt.Sprintf("server start-dev with a database file, journal_mode=WAL, synchronous=FULL, "+
			"rate limits out of the way; a job is a workflow that ends in its first task, one that sleeps "+
			"has one activity with heartbeats; %d pollers, eager start for jobs due now; no bulk API: %d "+
			"callers of ExecuteWorkflow. A development server: production runs on other databases",
			pollers, callers),
		Durable: "on disk (SQLite, synchronous=FULL)",
		History: "every event of every workflow, for 24 h",
	}
}

func (t *temporal) Prepare(ctx context.Context) error {
	if err := install(ctx); err != nil {
		return err
	}
	return t.connect(ctx)
}

func (t *temporal) connect(ctx context.Context) (err error) {
	if t.client != nil {
		return nil
	}
	if t.alive, err = hold(t.dir); err != nil {
		return err
	}
	address, err := address(ctx, t.dir)
	if err != nil {
		return err
	}
	t.client, err = client.DialContext(ctx, client.Options{HostPort: address, Logger: logger()})
	return err
}

func logger() sdklog.Logger {
	return sdklog.NewStructuredLogger(slog.New(slog.NewTextHandler(
		os.Stderr, &slog.HandlerOptions{Level: slog.LevelError},
	)))
}

func (t *temporal) Submit(ctx context.Context) error {
	_, err := t.client.ExecuteWorkflow(
		ctx, client.StartWorkflowOptions{TaskQueue: queue, StartDelay: 24 * time.Hour}, once,
		payload(peer.Job{}),
	)
	return err
}

func (t *temporal) Now(ctx context.Context, job peer.Job) error {
	_, err := t.client.ExecuteWorkflow(
		ctx, client.StartWorkflowOptions{TaskQueue: queue, EnableEagerStart: true}, once, payload(job),
	)
	return err
}

func (t *temporal) Fill(ctx context.Context, jobs int, job peer.Job) error {
	sent := payload(job)
	g, ctx := errgroup.WithContext(ctx)
	for caller := range callers {
		g.Go(func() error {
			for i := caller; i < jobs; i += callers {
				options := client.StartWorkflowOptions{TaskQueue: queue}
				if job.Due != 0 {
					options.StartDelay = max(0, time.Until(time.UnixMicro(job.Due)))
				}
				if _, err := t.client.ExecuteWorkflow(ctx, options, once, sent); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return g.Wait()
}

func (t *temporal) Stuff(context.Context, int, bool) error {
	return peer.Cannot(
		"its store is encoded histories that only its server can write: there is no quicker way in than " +
			"its API",
	)
}

func (t *temporal) Work(_ context.Context, started *peer.Recorder) error {
	w := worker.New(t.client, queue, worker.Options{MaxConcurrentWorkflowTaskPollers: pollers})
	register(w, started)
	return w.Start()
}

// Recur makes one schedule for each job. All are due at the same instants: whole multiples of the interval
// since 1970.
func (t *temporal) Recur(ctx context.Context, jobs int, every time.Duration) error {
	schedules := t.client.ScheduleClient()
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(callers)
	for i := range jobs {
		g.Go(func() error {
			_, err := schedules.Create(ctx, client.ScheduleOptions{
				ID:      fmt.Sprintf("bench-%d", i),
				Spec:    client.ScheduleSpec{Intervals: []client.ScheduleIntervalSpec{{Every: every}}},
				Overlap: enums.SCHEDULE_OVERLAP_POLICY_ALLOW_ALL,
				Action: &client.ScheduleWorkflowAction{
					ID: fmt.Sprintf("bench-%d", i), Workflow: again, TaskQueue: queue,
				},
			})
			return err
		})
	}
	return g.Wait()
}

// Unfinished counts running workflows; the execution time of a workflow with a delay is when the delay is
// over.
func (t *temporal) Unfinished(ctx context.Context) (int, error) {
	now := time.Now().UTC().Format(time.RFC3339Nano)
	count, err := t.client.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{
		Query: fmt.Sprintf(
			`TaskQueue = '%s' AND ExecutionStatus = 'Running' AND ExecutionTime <= '%s'`, queue, now,
		),
	})
	return int(count.GetCount()), err
}
