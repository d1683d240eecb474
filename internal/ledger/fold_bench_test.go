package ledger_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/ledger"
)

// guardsOnly is a store that keeps nothing but guards, and lets every change win.
type guardsOnly struct {
	carillon.Store
	mu     sync.Mutex
	guards map[string]carillon.Guard
}

func (s *guardsOnly) Commit(_ context.Context, changes []carillon.Change) ([]int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range changes {
		for _, g := range changes[i].Guards {
			g.Rev = g.NextRev()
			s.guards[g.Key] = g
		}
	}
	return nil, nil
}

func (s *guardsOnly) Guards(_ context.Context, q carillon.GuardQuery) ([]carillon.Guard, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := make([]carillon.Guard, 0, len(q.Keys))
	for _, key := range q.Keys {
		if g, known := s.guards[key]; known {
			found = append(found, g)
		}
	}
	return found, nil
}

// BenchmarkFolds is what the ledger adds to the commit of a run with a limit. One operation is the claim or
// the end of one run. Calls are as large, and keys as many, as in a backlog on PostgreSQL.
func BenchmarkFolds(b *testing.B) {
	const runs, keys = 800, 800
	s := &guardsOnly{guards: make(map[string]carillon.Guard, keys)}
	l := ledger.New(ledger.Config{Store: s, Flushers: 2})
	ctx, stop := context.WithCancel(b.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = l.Run(ctx) })
	changes := claimsAndEnds(b, runs, keys)
	b.ReportAllocs()
	for done := 0; done < b.N; done += len(changes) {
		if lost, err := l.Commit(ctx, changes); len(lost) > 0 || err != nil {
			b.Fatal(len(lost), "lost:", err)
		}
	}
	stop()
	running.Wait()
}

// claimsAndEnds are the claims of runs with a limit, and the ends of as many others.
func claimsAndEnds(b *testing.B, runs, keys int) (changes []carillon.Change) {
	for i := range 2 * runs {
		job := carillon.Job{Namespace: "default", ID: carillon.JobID(i + 1), State: carillon.JobActive}
		job.Schedule.At = 1
		job.Limits = []carillon.Limit{{Key: fmt.Sprint("customer-", i%keys), Concurrency: 10, Weight: 1}}
		run := carillon.Run{
			ID: carillon.RunID{Job: job.ID, Due: 1}, Namespace: job.Namespace, State: carillon.StateWaiting,
		}
		c := carillon.Candidate{Job: &job, Run: run, Limits: job.Limits, Worker: "w"}
		verdict, claim := c.Decide(2)
		if verdict != carillon.VerdictClaim {
			b.Fatal("verdict", verdict)
		}
		if i < runs {
			changes = append(changes, claim)
			continue
		}
		end := carillon.EndChange(&job, claim.Runs[0].End(carillon.StateSucceeded, "", 3), nil)
		changes = append(changes, end)
	}
	return changes
}
