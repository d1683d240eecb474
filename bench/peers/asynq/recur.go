package main

import (
	"context"
	"fmt"
	"time"

	"github.com/hibiken/asynq"

	"github.com/carillon-run/carillon/bench/peers/peer"
)

// recurs is when recurring tasks are due: their payloads are the same each time and cannot say it.
type recurs struct {
	first time.Time
	every time.Duration
}

// Recur starts a scheduler with one entry for each job. An entry is due in whole seconds, counted from the
// second in which its scheduler starts, so Recur starts it early in a second.
func (q *queue) Recur(_ context.Context, jobs int, every time.Duration) error {
	scheduler := asynq.NewSchedulerFromRedisClient(q.redis, &asynq.SchedulerOpts{LogLevel: asynq.ErrorLevel})
	task := asynq.NewTask(again, peer.Job{}.Payload())
	for range jobs {
		if _, err := scheduler.Register(fmt.Sprintf("@every %v", every), task); err != nil {
			return err
		}
	}
	second := time.Now().Truncate(time.Second).Add(time.Second)
	time.Sleep(time.Until(second.Add(50 * time.Millisecond)))
	q.recurs.Store(&recurs{second.Add(every), every})
	return scheduler.Start()
}

// due is the latest time up to now at which an entry was due. A start that is later than a whole period looks
// like one of the next period, but then fewer have run than expected.
func (r recurs) due(now time.Time) time.Time {
	return r.first.Add(now.Sub(r.first) / r.every * r.every)
}
