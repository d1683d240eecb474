package worker_test

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/executor"
	"github.com/carillon-run/carillon/worker"
	"github.com/carillon-run/carillon/worker/protocol"
)

// endless is a dispatcher that has a number of runs, and takes every report.
type endless struct {
	protocol.Dispatcher
	job    *carillon.Job
	left   atomic.Int64
	open   atomic.Int64 // runs that have not ended
	ended  chan struct{}
	latest atomic.Int64
}

func (d *endless) Register(context.Context, protocol.Registration) (string, error) {
	return "wrk_1", nil
}

func (d *endless) Beat(context.Context, carillon.Beat) (protocol.Orders, error) {
	return protocol.Orders{}, nil
}

func (d *endless) Leave(context.Context, string) error { return nil }

func (d *endless) Pull(ctx context.Context, p protocol.Pull) ([]protocol.Task, error) {
	n := min(int64(p.Max), 1000)
	if left := d.left.Add(-n); left < 0 {
		n = max(0, n+left)
	}
	if n == 0 {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	tasks := make([]protocol.Task, n)
	for i := range tasks {
		tasks[i].Job = d.job
		tasks[i].Run = carillon.Run{
			ID:    carillon.RunID{Job: 1, Due: carillon.Time(d.latest.Add(1))},
			State: carillon.StateClaimed, Worker: p.Worker, Attempt: 1,
		}
	}
	return tasks, nil
}

func (d *endless) Report(
	_ context.Context, _ string, reports []protocol.Report,
) ([]protocol.Receipt, error) {
	receipts := make([]protocol.Receipt, len(reports))
	ends := int64(0)
	for i := range receipts {
		receipts[i] = protocol.ReceiptRecorded
		if reports[i].End != nil {
			ends++
		}
	}
	if ends > 0 && d.open.Add(-ends) == 0 {
		close(d.ended)
	}
	return receipts, nil
}

// BenchmarkAttempt measures what an attempt of a small handler costs its worker.
func BenchmarkAttempt(b *testing.B) {
	funcs := executor.NewFuncs()
	funcs.Register("test", func(context.Context, executor.Task) error { return nil })
	def := carillon.Definition{}
	def.Type, def.Target.Handler = "test", &carillon.Handler{}
	d := &endless{job: &carillon.Job{ID: 1, Definition: def}, ended: make(chan struct{})}
	d.left.Store(int64(b.N))
	d.open.Store(int64(b.N))
	w := worker.New(worker.Config{
		Dispatcher: d, Inside: true, Concurrency: 4000,
		Executors: map[string]executor.Executor{"handler": funcs},
		Logger:    slog.New(slog.DiscardHandler),
	})
	b.ReportAllocs()
	ctx, stop := context.WithCancel(b.Context())
	ended := make(chan error)
	go func() { ended <- w.Run(ctx) }()
	<-d.ended
	b.StopTimer()
	stop()
	<-ended
}
