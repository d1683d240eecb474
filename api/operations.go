package api

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/jobjson"
	"github.com/carillon-run/carillon/internal/wire"
)

func (s *server) operationRoutes() []route {
	var op carillon.Operation
	return []route{
		{
			Method: "POST", Pattern: "/v1/operations",
			Summary: "Pause, resume, cancel or run all jobs that match a filter, or retry all such dead " +
				"letters, in the background (201); with dry_run only count them (200)",
			Takes: wire.OperationRequest{}, Status: 201, Or: 200, Gives: wire.OperationAnswer{}, Keyed: true,
			handle: s.startOperation,
		},
		{
			Method: "GET", Pattern: "/v1/operations", Summary: "List operations, newest first",
			Query: append([]param{{
				"state", "counting, running, done, canceled, failed; several separated by commas", nil,
			}}, paging...),
			Status: 200, Gives: wire.Page[carillon.Operation]{}, handle: s.listOperations,
		},
		{
			Method: "GET", Pattern: "/v1/operations/{id}", Summary: "Read an operation with its progress",
			Status: 200, Gives: op, handle: s.getOperation,
		},
		{
			Method: "POST", Pattern: "/v1/operations/{id}/cancel",
			Summary: "Cancel an operation: it stops within a second, and what it has done stays; the gate " +
				"of a release is closed again",
			Status: 200, Gives: op, Keyed: true, handle: s.cancelOperation,
		},
	}
}

func (s *server) startOperation(w http.ResponseWriter, r *http.Request, _ *query) error {
	body, err := readJSON(w, r, wire.MaxBody)
	if err != nil {
		return err
	}
	var want wire.OperationRequest
	if err := jobjson.Decode(body, &want); err != nil {
		return err
	}
	op := carillon.Operation{
		Namespace: namespace(r), Kind: want.Kind, Filter: want.Filter, Rate: carillon.DefaultOperationRate,
		Dead: want.Dead, KeepRunning: want.KeepRunning, By: credentialOf(r).Name,
	}
	if want.Rate != nil {
		op.Rate = *want.Rate
	}
	if err := op.Admit(); err != nil {
		return err
	}
	if want.DryRun {
		answer, err := s.dryRun(r.Context(), op)
		if err != nil {
			return err
		}
		return reply(w, http.StatusOK, answer)
	}
	return s.writeOperation(w, r, func() outcome {
		said := newOutcome(http.StatusCreated, wire.OperationAnswer{Operation: op})
		said.Location = "/v1/operations/" + op.ID.String()
		return said
	}, func() error { return s.Ledger.StartOperation(r.Context(), &op) })
}

// writeOperation is write for operations: do fills in what show shows before it makes the answer.
func (s *server) writeOperation(
	w http.ResponseWriter, r *http.Request, show func() outcome, do func() error,
) error {
	return s.write(w, r, func(*carillon.Job, *carillon.Run) outcome { return show() },
		func() (job carillon.Job, run carillon.Run, err error) { return job, run, do() })
}

const (
	dryRunTime   = 5 * time.Second // that a dry run counts at most
	dryRunPage   = 500
	dryRunSample = 10
)

// dryRun counts what an operation would act on if it began now.
func (s *server) dryRun(ctx context.Context, op carillon.Operation) (wire.OperationAnswer, error) {
	if op.Kind == carillon.OperationRedrive {
		return s.dryRedrive(ctx, op)
	}
	answer := wire.OperationAnswer{Operation: op, DryRun: true}
	q := op.Filter.Query(op.Namespace, s.Clock.Now())
	q.Limit = dryRunPage
	for until := time.Now().Add(dryRunTime); ; {
		page, err := s.Store.FindJobs(ctx, q)
		if err != nil {
			return answer, err
		}
		for i := range page.Jobs {
			job := &page.Jobs[i]
			if !op.Filter.Chooses(job) {
				continue
			}
			if answer.Total++; len(answer.Sample) < dryRunSample {
				answer.Sample = append(answer.Sample, wire.SampleJob{
					ID: job.ID, Name: job.Name, Type: job.Type, Owner: job.Owner, Queue: job.Queue,
					State: job.State,
				})
			}
		}
		if q.Before = page.Next; page.Next == 0 {
			return answer, nil
		}
		if time.Now().After(until) {
			answer.AtLeast = true
			return answer, nil
		}
	}
}

// listOperations reads the records of all operations: those of a month that people began, and the releases of
// a day.
func (s *server) listOperations(w http.ResponseWriter, r *http.Request, q *query) error {
	var states []carillon.OperationState
	for _, word := range q.list("state") {
		if !slices.Contains(carillon.OperationStates, carillon.OperationState(word)) {
			q.fail("state", word, "counting, running, done, canceled or failed, separated by commas")
		}
		states = append(states, carillon.OperationState(word))
	}
	before, limit := q.cursor(), q.limit()
	if q.err != nil {
		return q.err
	}
	guards, err := s.Store.Guards(r.Context(), carillon.OperationQuery(namespace(r)))
	if err != nil {
		return err
	}
	// Keys end with ids, which rise with time.
	slices.SortFunc(guards, func(a, b carillon.Guard) int { return strings.Compare(b.Key, a.Key) })
	var items []carillon.Operation
	next := ""
	for i := range guards {
		record, err := carillon.OperationOf(&guards[i])
		if err != nil { // one broken record must not hide all others
			s.Logger.ErrorContext(
				r.Context(), "read an operation: the list leaves it out", "request", requestID(w),
				"error", err,
			)
			continue
		}
		if before != "" && record.ID.String() >= before || guards[i].Expired(s.Clock.Now()) ||
			len(states) > 0 && !slices.Contains(states, record.State) {
			continue
		}
		if len(items) == limit {
			next = items[limit-1].ID.String()
			break
		}
		items = append(items, record.Operation)
	}
	return reply(w, http.StatusOK, wire.NewPage(items, q.nextCursor(next)))
}

func (s *server) getOperation(w http.ResponseWriter, r *http.Request, _ *query) error {
	op, err := s.operation(r)
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, op)
}

// operation reads the operation that the path names.
func (s *server) operation(r *http.Request) (op carillon.Operation, err error) {
	id, err := carillon.ParseOperationID(r.PathValue("id"))
	if err != nil {
		return op, err
	}
	guards, err := s.Store.Guards(r.Context(), carillon.GuardQuery{
		Namespace: namespace(r), Keys: []string{id.Key()},
	})
	if err != nil {
		return op, err
	}
	if len(guards) == 0 {
		return op, notFound("operation " + id.String())
	}
	record, err := carillon.OperationOf(&guards[0])
	return record.Operation, err
}

func (s *server) cancelOperation(w http.ResponseWriter, r *http.Request, _ *query) error {
	op, err := s.operation(r)
	if err != nil {
		return err
	}
	return s.writeOperation(w, r, func() outcome { return newOutcome(http.StatusOK, op) }, func() error {
		if op.Kind != carillon.OperationRelease {
			return s.Ledger.CancelOperation(r.Context(), &op)
		}
		known, err := s.catalog()
		if err != nil {
			return err
		}
		return known.CancelRelease(r.Context(), &op, credentialOf(r).Name)
	})
}
