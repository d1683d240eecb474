package main

import (
	"context"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/carillon-run/carillon/bench/peers/peer"
)

// stuff copies a scheduled task under other ids. They are as long as its own id, because the message contains
// the id too.
//
//	KEYS[1] -> asynq:{<queue>}:scheduled    KEYS[2] -> asynq:{<queue>}:t:<id of the task>
//	ARGV[1] -> id of the task    ARGV[2] -> prefix of the keys of tasks
//	ARGV[3], ARGV[4] -> first and last number of the copies    ARGV[5] -> unix time at which they are due
var stuff = redis.NewScript(`
local message = redis.call("HGET", KEYS[2], "msg")
local from, to = string.find(message, ARGV[1], 1, true)
local before, after = string.sub(message, 1, from - 1), string.sub(message, to + 1)
for i = ARGV[3], ARGV[4] do
  local id = string.format("00000000-0000-4000-8000-%012d", i)
  redis.call("HSET", ARGV[2] .. id, "msg", before .. id .. after, "state", "scheduled")
  redis.call("ZADD", KEYS[1], ARGV[5], id)
end
return 1
`)

func (q *queue) Stuff(ctx context.Context, jobs int, ended bool) error {
	if ended {
		return peer.Cannot(
			"a task that has ended is deleted, unless it asks to be kept for a while: there is no history " +
				"that could grow",
		)
	}
	due := time.Now().Add(24 * time.Hour)
	model, err := q.client.EnqueueContext(
		ctx, asynq.NewTask(once, peer.Job{}.Payload()), asynq.ProcessAt(due),
	)
	if err != nil {
		return err
	}
	const batch = 5000                 // Redis does nothing else meanwhile
	for i := 1; i < jobs; i += batch { // the model is one of the jobs
		last := min(i+batch, jobs) - 1
		err := stuff.Run(
			ctx, q.redis, []string{scheduled, taskOf + model.ID}, model.ID, taskOf, i, last, due.Unix(),
		).Err()
		if err != nil {
			return err
		}
	}
	return nil
}
