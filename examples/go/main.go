// Command go is an example of your own worker: functions that perform the runs of handler jobs.
//
//	CARILLON_SERVER=http://a:8420,http://b:8420 CARILLON_TOKEN=... go run . QUEUE...
package main

import (
	"context"
	"encoding/json"
	"errors"
	"log"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/carillon-run/carillon/client"
	"github.com/carillon-run/carillon/executor"
	"github.com/carillon-run/carillon/worker"
)

func main() {
	dispatcher, err := client.NewDispatcher(client.DispatcherConfig{
		Servers: strings.Split(os.Getenv("CARILLON_SERVER"), ","), Token: os.Getenv("CARILLON_TOKEN"),
	})
	if err != nil {
		log.Fatal(err)
	}
	handlers := executor.NewFuncs()
	handlers.Register("echo", echo) // by type of job

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err = worker.New(worker.Config{
		Dispatcher: dispatcher, Name: "go", Queues: os.Args[1:], Concurrency: 16,
		Executors: map[string]executor.Executor{"handler": handlers},
	}).Run(ctx)
	if err != nil {
		log.Fatal(err)
	}
}

// echo succeeds if it returns nil, and ends the run for good with executor.Fatal. After any other error the
// run is tried again: by the job's policy, or not before the time that executor.RetryAfter names. ctx ends
// when the run is canceled, has timed out or is lost; the worker then reports this cause instead of an error
// that echo returns.
func echo(ctx context.Context, task executor.Task) error {
	var wish struct {
		Sleep  float64 // seconds
		Fail   int32   // this many attempts
		Refuse bool
	}
	if err := json.Unmarshal(task.Job.Payload, &wish); err != nil {
		return executor.Fatal(err)
	}
	select {
	case <-time.After(time.Duration(wish.Sleep * float64(time.Second))):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	switch {
	case wish.Refuse:
		return executor.Fatal(errors.New("not ever"))
	case wish.Fail >= task.Run.Attempt:
		return executor.RetryAfter(10*time.Millisecond, errors.New("not this time"))
	}
	task.Print("stdout", "attempt of "+task.Job.Name)
	return task.SetResult(task.Job.Payload)
}
