// Command river is River as bench/peers measures it: jobs in PostgreSQL, performed in this process.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"golang.org/x/sync/errgroup"

	"github.com/carillon-run/carillon/bench/peers/peer"
)

const (
	// As in River's own benchmark command.
	fetchCooldown     = 2 * time.Millisecond
	fetchPollInterval = 20 * time.Millisecond
	maxWorkers        = 2000

	// River takes a job back from a dead worker only when the job should have ended long ago: a shorter time
	// means that jobs must be shorter too. The default is an hour, which is longer than a benchmark runs.
	jobTimeout  = 10 * time.Second
	rescueAfter = 11 * time.Second

	// River's benchmark leaves the pool at the default of four connections; sixteen clients that submit at
	// once need one each, besides those of River's client itself.
	poolSize = 32

	callers = 4
	batch   = 5000 // for InsertManyFast, as in its benchmark
)

func main() {
	if err := serve(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(ctx context.Context) error {
	config, err := pgxpool.ParseConfig(os.Getenv("POSTGRES"))
	if err != nil {
		return err
	}
	config.MaxConns = poolSize
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return err
	}
	insert, err := river.NewClient(riverpgxv5.New(pool), &river.Config{Logger: logger()})
	if err != nil {
		return err
	}
	peer.Serve(&rivers{pool: pool, client: insert})
	return nil
}

// logger passes errors only: a slow fetch on a busy machine is a warning, and no news here.
func logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
}

// rivers is River behind peer.Peer.
type rivers struct {
	pool   *pgxpool.Pool
	client *river.Client[pgx.Tx] // only inserts until Work
	asking *pgx.Conn             // for Unfinished, so that it takes no connection from the pool
}

func (r *rivers) Hello() peer.Hello {
	return peer.Hello{
		Name: "river", Version: peer.Version("github.com/riverqueue/river"), Engine: "postgres",
		Settings: fmt.Sprintf("as in its benchmark command: FetchCooldown %v, FetchPollInterval %v, "+
			"MaxWorkers %d, LISTEN/NOTIFY; pool of %d; JobTimeout %v and RescueStuckJobsAfter %v "+
			"(defaults: 1 min, 1 h), so that jobs of a dead worker come back soon; bulk: InsertManyFast "+
			"(COPY), %d callers x %d. Its leader moves due jobs every 5 s, looking 5 s ahead: not to be set",
			fetchCooldown, fetchPollInterval, maxWorkers, poolSize, jobTimeout, rescueAfter, callers, batch),
		Durable: "on disk (PostgreSQL's commit)",
		History: "every job, as a row with its last attempt, for 24 h",
	}
}

func (r *rivers) Prepare(ctx context.Context) error {
	migrator, err := rivermigrate.New(riverpgxv5.New(r.pool), &rivermigrate.Config{Logger: logger()})
	if err != nil {
		return err
	}
	_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	return err
}

func (r *rivers) Submit(ctx context.Context) error {
	_, err := r.client.Insert(ctx, task{}, &river.InsertOpts{ScheduledAt: time.Now().Add(24 * time.Hour)})
	return err
}

func (r *rivers) Now(ctx context.Context, job peer.Job) error {
	_, err := r.client.Insert(ctx, task{job}, nil)
	return err
}

func (r *rivers) Fill(ctx context.Context, jobs int, job peer.Job) error {
	var opts *river.InsertOpts
	if job.Due != 0 {
		opts = &river.InsertOpts{ScheduledAt: time.UnixMicro(job.Due)}
	}
	params := make([]river.InsertManyParams, min(jobs, batch))
	for i := range params {
		params[i] = river.InsertManyParams{Args: task{job}, InsertOpts: opts}
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(callers)
	for left := jobs; left > 0; left -= batch {
		g.Go(func() error {
			_, err := r.client.InsertManyFast(ctx, params[:min(left, batch)])
			return err
		})
	}
	return g.Wait()
}

func (r *rivers) Work(ctx context.Context, started *peer.Recorder) error {
	workers := river.NewWorkers()
	river.AddWorker(workers, &worker{started: started})
	river.AddWorker(workers, &recurringWorker{started: started})
	client, err := river.NewClient(riverpgxv5.New(r.pool), &river.Config{
		FetchCooldown: fetchCooldown, FetchPollInterval: fetchPollInterval,
		Queues:     map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: maxWorkers}},
		JobTimeout: jobTimeout, RescueStuckJobsAfter: rescueAfter,
		Workers: workers, Logger: logger(),
	})
	if err != nil {
		return err
	}
	r.client = client
	return client.Start(ctx)
}

func (r *rivers) Recur(_ context.Context, jobs int, every time.Duration) error {
	periodic := make([]*river.PeriodicJob, jobs)
	for i := range periodic {
		periodic[i] = river.NewPeriodicJob(river.PeriodicInterval(every),
			func() (river.JobArgs, *river.InsertOpts) { return recurring{}, nil }, nil)
	}
	_, err := r.client.PeriodicJobs().AddManySafely(periodic)
	return err
}

// unfinished is answered from the index with which River fetches, (state, queue, priority, scheduled_at, id),
// with one lookup for each state, so asking every few milliseconds costs a drain nothing.
const unfinished = `SELECT count(*)
  FROM unnest('{available,running,retryable,scheduled}'::river_job_state[]) AS s(state), LATERAL (
  SELECT FROM river_job j WHERE j.state = s.state AND j.queue = 'default' AND j.priority = 1
    AND j.scheduled_at <= now() LIMIT 1) AS one`

func (r *rivers) Unfinished(ctx context.Context) (left int, err error) {
	if r.asking == nil {
		conn, err := pgx.Connect(ctx, os.Getenv("POSTGRES"))
		if err != nil {
			return 0, err
		}
		// Without statistics the planner can take the table for small enough to scan.
		if _, err := conn.Exec(ctx, `SET enable_seqscan = off; SET enable_bitmapscan = off`); err != nil {
			return 0, err
		}
		r.asking = conn
	}
	err = r.asking.QueryRow(ctx, unfinished).Scan(&left)
	return left, err
}
