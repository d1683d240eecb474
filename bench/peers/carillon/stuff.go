package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/bench/peers/peer"
	"github.com/carillon-run/carillon/node"
)

// Stuff submits jobs that are due tomorrow in the usual way, directly to the node. Ended ones are copies,
// made with SQL, of a job that has really run: running ten million would take minutes, and the rows would be
// the same.
func (s *system) Stuff(ctx context.Context, jobs int, ended bool) error {
	if ended {
		return s.stuffEnded(ctx, jobs)
	}
	n, err := s.open(false)
	if err != nil {
		return err
	}
	def := definition(peer.Job{}.Payload(), carillon.Schedule{At: carillon.Now().Add(day)})
	return s.fill(jobs, def, func(defs []carillon.Definition) error {
		_, err := n.Submit(ctx, defs...)
		return err
	})
}

func (s *system) stuffEnded(ctx context.Context, jobs int) error {
	s.mu.Lock()
	err := s.shut()
	s.mu.Unlock()
	if err != nil {
		return err
	}
	real, err := s.runOne(ctx)
	if err != nil {
		return fmt.Errorf("run the job that is copied: %w", err)
	}
	c := copies{
		jobs: jobs, of: int64(real.ID.Job), first: firstCopy(real.ID.Job, jobs),
		back: int64(jobs/perMilli + 10),
	}
	if s.name == "carillon-sqlite" {
		err = c.sqlite(ctx, s.config())
	} else {
		err = c.postgres(ctx, s.config().Store)
	}
	if err != nil {
		return fmt.Errorf("copy a job that has ended: %w", err)
	}
	return s.checkCopies(ctx, c)
}

// runOne runs a job to its end and closes the node again.
func (s *system) runOne(ctx context.Context) (run carillon.Run, err error) {
	cfg := s.config()
	cfg.Concurrency = 1
	running, stop := context.WithCancel(ctx)
	defer stop()
	n, err := node.Open(running, cfg)
	if err != nil {
		return run, err
	}
	done := make(chan error, 1)
	go func() { done <- n.Run(running) }()
	defer func() { stop(); err = errors.Join(err, <-done) }()
	jobs, err := n.Submit(ctx, definition(peer.Job{}.Payload(), carillon.Schedule{}))
	if err != nil {
		return run, err
	}
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		page, err := n.Store().FindRuns(ctx, carillon.RunQuery{
			Job: jobs[0].ID, States: []carillon.State{carillon.StateSucceeded}, Limit: 1,
		})
		if err != nil {
			return run, err
		}
		if len(page.Runs) == 1 {
			return page.Runs[0], nil
		}
	}
	return run, errors.New("it did not end within 10 s")
}

// checkCopies reads the first, a middle and the last copy through the store, as every reader does.
func (s *system) checkCopies(ctx context.Context, c copies) error {
	n, err := s.open(false)
	if err != nil {
		return err
	}
	for _, i := range []int{0, c.jobs / 2, c.jobs - 1} {
		id := carillon.JobID(c.id(i))
		page, err := n.Store().FindRuns(ctx, carillon.RunQuery{Job: id, Limit: 1})
		if err != nil {
			return err
		}
		if len(page.Runs) != 1 || page.Runs[0].State != carillon.StateSucceeded {
			return fmt.Errorf("copy %d of %d is not among the ended runs: %v", i, c.jobs, page.Runs)
		}
		if _, err := n.Store().Jobs(ctx, []carillon.JobVersion{
			{Job: id, Version: page.Runs[0].Version},
		}); err != nil {
			return fmt.Errorf("copy %d of %d: %w", i, c.jobs, err)
		}
	}
	return nil
}
