package porttest

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/executor"
	"github.com/carillon-run/carillon/internal/dispatch"
	"github.com/carillon-run/carillon/worker"
)

// Join starts one more worker of the house, which has labels. leave drains and stops it; by lists the runs
// that it performed.
func (h *House) Join(labels map[string]string) (by func() []carillon.RunID, leave func()) {
	began, mine := time.Now(), handlers{h: h, by: new([]carillon.RunID)}
	w := worker.New(worker.Config{
		Dispatcher: dispatch.Local{Dispatcher: h.Dispatcher}, Labels: labels, Concurrency: 1,
		Executors: map[string]executor.Executor{"handler": mine},
		Logger:    slog.New(slog.DiscardHandler), Inside: true, Clock: &h.Clock,
		Boottime: func() time.Duration { return time.Since(began) },
	})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { w.Run(ctx) })
	by = func() []carillon.RunID {
		h.mu.Lock()
		defer h.mu.Unlock()
		return slices.Clone(*mine.by)
	}
	return by, func() {
		cancel()
		running.Wait()
	}
}

// selective are scenarios about jobs that need labels. The worker of the house has none.
var selective = []scenario{
	{"a run that needs a label starts within a second when a worker with it joins", func(h *House) {
		gpu := func(d *carillon.Definition) { d.Needs = map[string]string{"gpu": "true"} }
		first, plain := h.Submit(gpu), h.Submit(nil)
		_, leave := h.Join(map[string]string{"gpu": "false"})
		defer leave()
		time.Sleep(time.Hour)
		h.expect(first.ID, "waiting 0")
		h.expect(plain.ID, "succeeded 1")
		by, leave := h.Join(map[string]string{"gpu": "true", "zone": "eu"})
		defer leave()
		time.Sleep(time.Second)
		h.expect(first.ID, "succeeded 1")
		second := h.Submit(gpu) // while its worker waits: it is preclaimed
		time.Sleep(time.Second)
		h.expect(second.ID, "succeeded 1")
		want := []carillon.RunID{{Job: first.ID, Due: first.Created}, {Job: second.ID, Due: second.Created}}
		got := slices.DeleteFunc(by(), func(id carillon.RunID) bool { return id.Job == plain.ID })
		if !slices.Equal(got, want) {
			h.T.Errorf("the worker with the label performed %v, want %v", got, want)
		}
	}},
	{"an edit of what a job needs moves a run that has not begun", func(h *House) {
		job := h.Submit(func(d *carillon.Definition) { d.Needs = map[string]string{"gpu": "true"} })
		time.Sleep(time.Minute)
		h.expect(job.ID, "waiting 0")
		unlabel := func(d *carillon.Definition) error {
			d.Needs = nil
			return nil
		}
		if _, err := h.Ledger.EditJob(context.Background(), job.Namespace, job.ID, unlabel); err != nil {
			h.T.Fatal(err)
		}
		time.Sleep(time.Second)
		h.expect(job.ID, "succeeded 1")
	}},
}
