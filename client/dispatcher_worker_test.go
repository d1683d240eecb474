package client_test

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/executor"
	"github.com/carillon-run/carillon/worker"
)

func TestAWorkerGoesOnWhenTheNodeItWorksWithIsLost(t *testing.T) {
	c := newCluster(t)
	var nodes []*httptest.Server
	var asked []*atomic.Int32
	for range 3 {
		web, calls := c.serve()
		nodes, asked = append(nodes, web), append(asked, calls)
	}
	urls := []string{nodes[0].URL, nodes[1].URL, nodes[2].URL}
	c.advertise(urls...)
	begun, end := make(chan carillon.RunID, 100), make(chan struct{})
	funcs := executor.NewFuncs()
	funcs.Register("mail", func(ctx context.Context, task executor.Task) error {
		begun <- task.Run.ID
		select {
		case <-end:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	work := worker.New(worker.Config{
		Dispatcher: newDispatcher(t, nodes[0].URL), Executors: map[string]executor.Executor{"handler": funcs},
		Concurrency: 100,
		Logger:      slog.New(slog.DiscardHandler),
	})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- work.Run(ctx) }()

	var runs []carillon.RunID
	for lost := range nodes { // the worker was given only the first one
		c.due(mail())
		runs = append(runs, <-begun)
		if lost < 2 {
			nodes[lost].CloseClientConnections()
			nodes[lost].Close()
			c.advertise(urls[lost+1:]...)
		}
	}
	close(end)
	stop() // the worker reports runs that have ended before it leaves
	if err := <-done; err != nil {
		t.Error(err)
	}
	for _, run := range must(c.store.Runs(t.Context(), runs, false))(t) {
		if run.State != carillon.StateSucceeded || run.Attempt != 1 {
			t.Errorf("%s is %s after %d attempts: %s", run.ID, run.State, run.Attempt, run.Reason)
		}
	}
	if asked[1].Load() == 0 && asked[2].Load() == 0 {
		t.Error("no other node was asked")
	}
}
