package main

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/bench/peers/peer"
)

func definition(payload []byte, schedule carillon.Schedule) carillon.Definition {
	d := carillon.Definition{}
	d.Name, d.Type, d.Payload, d.Schedule = "bench", "bench", payload, schedule
	d.Target.Handler = &carillon.Handler{}
	return d
}

// when is the schedule of a job; without a due time the job is due now.
func when(j peer.Job) carillon.Schedule {
	if j.Due == 0 {
		return carillon.Schedule{}
	}
	return carillon.Schedule{At: carillon.TimeOf(time.UnixMicro(j.Due))}
}

func (s *system) Submit(ctx context.Context) error {
	return s.submit(ctx, definition(peer.Job{}.Payload(), carillon.Schedule{At: carillon.Now().Add(day)}))
}

func (s *system) Now(ctx context.Context, job peer.Job) error {
	return s.submit(ctx, definition(job.Payload(), carillon.Schedule{}))
}

func (s *system) submit(ctx context.Context, defs ...carillon.Definition) error {
	n, err := s.open(false)
	if err != nil {
		return err
	}
	if s.http != nil {
		return s.http.submit(ctx, defs)
	}
	_, err = n.Submit(ctx, defs...)
	return err
}

func (s *system) Fill(ctx context.Context, jobs int, job peer.Job) error {
	return s.fill(jobs, definition(job.Payload(), when(job)), func(defs []carillon.Definition) error {
		return s.submit(ctx, defs...)
	})
}

func (s *system) Recur(ctx context.Context, jobs int, every time.Duration) error {
	s.recurs.Store(true)
	at := carillon.TimeOf(time.Now().Truncate(every).Add(2 * every)) // all at the same moment
	def := definition(peer.Job{}.Payload(), carillon.Schedule{Every: carillon.Duration(every), StartsAt: at})
	return s.fill(jobs, def, func(defs []carillon.Definition) error { return s.submit(ctx, defs...) })
}

// fill submits jobs in bulk: four callers with 1000 at a time.
func (s *system) fill(jobs int, def carillon.Definition, submit func([]carillon.Definition) error) error {
	if _, err := s.open(false); err != nil {
		return err
	}
	const callers, batch = 4, 1000
	var left atomic.Int64
	left.Store(int64(jobs))
	errs := make([]error, callers)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			for {
				size := min(batch, left.Add(-batch)+batch)
				if size <= 0 {
					return
				}
				defs := make([]carillon.Definition, size)
				for i := range defs {
					defs[i] = def
				}
				if errs[i] = submit(defs); errs[i] != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
