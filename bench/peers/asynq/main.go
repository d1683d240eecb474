// Command asynq is asynq as bench/peers measures it: tasks in Redis, processed in this process.
package main

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/carillon-run/carillon/bench/peers/peer"
)

const (
	concurrency = 200
	callers     = 64 // of Enqueue in bulk

	// How long the server sleeps when a queue is empty: half to one and a half of it. It asks Redis that
	// often.
	taskCheckInterval = 2 * time.Millisecond
	// How often due tasks move to the pending ones.
	delayedTaskCheckInterval = 10 * time.Millisecond
)

// Where asynq keeps the tasks of its default queue.
const (
	pending   = "asynq:{default}:pending"
	active    = "asynq:{default}:active"
	scheduled = "asynq:{default}:scheduled"
	retry     = "asynq:{default}:retry"
	taskOf    = "asynq:{default}:t:"
)

const (
	once  = "bench"
	again = "recurring"
)

func main() {
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve() error {
	options, err := redis.ParseURL(os.Getenv("REDIS"))
	if err != nil {
		return err
	}
	options.PoolSize = callers + concurrency // one connection for every goroutine that can need one at once
	rdb := redis.NewClient(options)
	peer.Serve(&queue{redis: rdb, client: asynq.NewClientFromRedisClient(rdb)})
	return nil
}

// queue is asynq behind peer.Peer.
type queue struct {
	redis  *redis.Client
	client *asynq.Client
	recurs atomic.Pointer[recurs]
}

func (q *queue) Hello() peer.Hello {
	return peer.Hello{
		Name: "asynq", Version: peer.Version("github.com/hibiken/asynq"), Engine: "redis",
		Settings: fmt.Sprintf("Concurrency %d, TaskCheckInterval %v (default 1 s), "+
			"DelayedTaskCheckInterval %v (default 5 s), retries without delay; no bulk API: %d callers of "+
			"Enqueue. Due times are whole seconds, rounded down", concurrency,
			taskCheckInterval, delayedTaskCheckInterval, callers),
		Durable: "in Redis' memory; on disk as its appendfsync says",
		History: "nothing but daily counts: a task that has ended is deleted (the default, Retention 0)",
	}
}

// Prepare has no schema to make; it only checks that Redis is there.
func (q *queue) Prepare(ctx context.Context) error { return q.redis.Ping(ctx).Err() }

func (q *queue) Submit(ctx context.Context) error {
	_, err := q.client.EnqueueContext(
		ctx, asynq.NewTask(once, peer.Job{}.Payload()), asynq.ProcessIn(24*time.Hour),
	)
	return err
}

func (q *queue) Now(ctx context.Context, job peer.Job) error {
	_, err := q.client.EnqueueContext(ctx, asynq.NewTask(once, job.Payload()))
	return err
}

func (q *queue) Fill(ctx context.Context, jobs int, job peer.Job) error {
	var opts []asynq.Option
	if job.Due != 0 {
		opts = append(opts, asynq.ProcessAt(time.UnixMicro(job.Due)))
	}
	task := asynq.NewTask(once, job.Payload())
	g, ctx := errgroup.WithContext(ctx)
	for caller := range callers {
		g.Go(func() error {
			for i := caller; i < jobs; i += callers {
				if _, err := q.client.EnqueueContext(ctx, task, opts...); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return g.Wait()
}

func (q *queue) Work(_ context.Context, started *peer.Recorder) error {
	server := asynq.NewServerFromRedisClient(q.redis, asynq.Config{
		Concurrency: concurrency, TaskCheckInterval: taskCheckInterval,
		DelayedTaskCheckInterval: delayedTaskCheckInterval,
		// A task that comes back from a dead server counts as failed: there is no need to wait again.
		RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return 0 },
		LogLevel:       asynq.ErrorLevel,
	})
	mux := asynq.NewServeMux()
	mux.HandleFunc(once, func(_ context.Context, task *asynq.Task) error {
		started.Start(task.Payload())
		return nil
	})
	mux.HandleFunc(again, func(context.Context, *asynq.Task) error {
		now := time.Now()
		started.At(now, peer.Job{Due: q.recurs.Load().due(now).UnixMicro()})
		return nil
	})
	return server.Start(mux)
}

// Unfinished reads the lengths that asynq's Inspector reads, without the memory sizes that the Inspector also
// computes, and counts only those delayed tasks that are due.
func (q *queue) Unfinished(ctx context.Context) (int, error) {
	now := fmt.Sprint(time.Now().Unix())
	pipe := q.redis.Pipeline()
	counts := []*redis.IntCmd{
		pipe.LLen(ctx, pending), pipe.LLen(ctx, active),
		pipe.ZCount(ctx, scheduled, "-inf", now), pipe.ZCount(ctx, retry, "-inf", now),
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return 0, err
	}
	left := 0
	for _, c := range counts {
		left += int(c.Val())
	}
	return left, nil
}
