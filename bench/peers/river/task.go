package main

import (
	"context"
	"time"

	"github.com/riverqueue/river"

	"github.com/carillon-run/carillon/bench/peers/peer"
)

// task is the arguments of a job: the payload that all peers send. Only its beginning is read back.
type task struct{ peer.Job }

func (task) Kind() string { return "bench" }

func (t task) MarshalJSON() ([]byte, error) { return t.Payload(), nil }

type worker struct {
	river.WorkerDefaults[task]
	started *peer.Recorder
}

func (w *worker) Work(_ context.Context, job *river.Job[task]) error {
	w.started.At(time.Now(), job.Args.Job)
	return nil
}

// recurring is one run of a periodic job. Its due time is not in its payload: River itself stores it.
type recurring struct{ task }

func (recurring) Kind() string { return "recurring" }

type recurringWorker struct {
	river.WorkerDefaults[recurring]
	started *peer.Recorder
}

func (w *recurringWorker) Work(_ context.Context, job *river.Job[recurring]) error {
	w.started.At(time.Now(), peer.Job{Due: job.ScheduledAt.UnixMicro()})
	return nil
}
