package main

import (
	"context"
	"encoding/json"
	"time"

	"go.temporal.io/sdk/activity"
	sdk "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/carillon-run/carillon/bench/peers/peer"
)

// Names of the two workflows and the activity.
const (
	once  = "bench"
	again = "recurring"
	sleep = "sleep"
)

// payload is a job's payload, which the SDK sends unchanged.
func payload(job peer.Job) json.RawMessage { return job.Payload() }

// scheduled is where the server stores the due time of a run of a schedule.
var scheduled = sdk.NewSearchAttributeKeyTime("TemporalScheduledStartTime")

func register(w worker.Worker, started *peer.Recorder) {
	w.RegisterWorkflowWithOptions(func(ctx workflow.Context, job peer.Job) error {
		// A workflow must not block its worker: work that takes time is an activity.
		if job.Sleep > 0 {
			return workflow.ExecuteActivity(
				workflow.WithActivityOptions(ctx, sleeping), sleep, job,
			).Get(ctx, nil)
		}
		if !workflow.IsReplaying(ctx) {
			started.At(time.Now(), job)
		}
		return nil
	}, workflow.RegisterOptions{Name: once})

	w.RegisterWorkflowWithOptions(func(ctx workflow.Context) error {
		var job peer.Job
		if due, ok := workflow.GetTypedSearchAttributes(ctx).GetTime(scheduled); ok {
			job.Due = due.UnixMicro()
		}
		if !workflow.IsReplaying(ctx) {
			started.At(time.Now(), job)
		}
		return nil
	}, workflow.RegisterOptions{Name: again})

	w.RegisterActivityWithOptions(func(ctx context.Context, job peer.Job) error {
		ctx, end := context.WithCancel(ctx)
		defer end()
		go beat(ctx)
		started.At(time.Now(), job)
		return nil
	}, activity.RegisterOptions{Name: sleep})
}

// sleeping: an activity without a heartbeat for two seconds goes to another worker at once.
var sleeping = workflow.ActivityOptions{
	StartToCloseTimeout: time.Minute,
	HeartbeatTimeout:    2 * time.Second,
	RetryPolicy:         &sdk.RetryPolicy{InitialInterval: 10 * time.Millisecond},
}

func beat(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(500 * time.Millisecond):
			activity.RecordHeartbeat(ctx)
		}
	}
}
