package client

import (
	"context"
	"iter"
	"net/http"
	"strconv"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/wire"
)

// RunDetail is a run with what it waits for.
type RunDetail = wire.RunDetail

// Wait says what a waiting run waits for.
type Wait = wire.Wait

// WaitKind is the kind of thing that a waiting run waits for.
type WaitKind = wire.WaitKind

const (
	WaitTime    = wire.WaitTime    // its due time or its next attempt
	WaitResume  = wire.WaitResume  // its job is paused
	WaitTurn    = wire.WaitTurn    // another run of its job
	WaitWorker  = wire.WaitWorker  // a worker that serves its queue and can perform it: there is none
	WaitSlot    = wire.WaitSlot    // a free slot: all are taken
	WaitClaim   = wire.WaitClaim   // a worker that could take it has not done so yet
	WaitUnknown = wire.WaitUnknown // a worker; the list of workers cannot be read now
)

// Run reads a run, with its result and checkpoint, and what it waits for.
func (c *Client) Run(ctx context.Context, id carillon.RunID) (run RunDetail, err error) {
	err = c.call(ctx, request{method: http.MethodGet, path: runPath(id)}, &run)
	return run, err
}

// Attempts goes over the attempts of a run, the first one first. The last one can be going on: it has neither
// an end nor an outcome. limit is the size of a page (0: the server's choice).
func (c *Client) Attempts(
	ctx context.Context, id carillon.RunID, limit int,
) iter.Seq2[carillon.Attempt, error] {
	return pages(ctx, func(ctx context.Context, cursor Cursor) (Page[carillon.Attempt], error) {
		return c.AttemptPage(ctx, id, limit, cursor)
	})
}

// AttemptPage reads one page of Attempts; the first has no cursor.
func (c *Client) AttemptPage(
	ctx context.Context, id carillon.RunID, limit int, cursor Cursor,
) (page Page[carillon.Attempt], err error) {
	err = c.call(ctx, request{
		method: http.MethodGet, path: runPath(id) + "/attempts", query: newParams(cursor, limit).Values,
	}, &page)
	return page, err
}

// Runs goes over the matching runs: the unfinished ones, earliest due first, then the ended ones, latest
// end first. For a single job the order is latest due first. Without States it leaves out runs that are due
// in the future. Limit is the size of a page; Namespace, Dead and After do not apply.
func (c *Client) Runs(ctx context.Context, q carillon.RunQuery) iter.Seq2[carillon.Run, error] {
	return pages(ctx, func(ctx context.Context, cursor Cursor) (Page[carillon.Run], error) {
		return c.RunPage(ctx, q, cursor)
	})
}

// RunPage reads one page of Runs; the first has no cursor.
func (c *Client) RunPage(
	ctx context.Context, q carillon.RunQuery, cursor Cursor,
) (Page[carillon.Run], error) {
	p := newParams(cursor, q.Limit)
	if q.Job != 0 {
		p.text("job_id", q.Job.String())
	}
	p.list("state", words(&q))
	p.text("worker_id", q.Worker)
	p.time("due_from", q.From)
	p.time("due_to", q.To)
	return c.runPage(ctx, "/v1/runs", p)
}

// words are the states and statuses of the query. The server sets Now.
func words(q *carillon.RunQuery) []string {
	words := texts(q.States)
	for _, status := range q.Statuses {
		words = append(words, string(status))
	}
	return words
}

// RunsOf goes over a job's runs, latest due first, planned ones too. Only Job, States, Statuses and Limit of
// the query apply. Unlike Runs it fails if there is no such job.
func (c *Client) RunsOf(ctx context.Context, q carillon.RunQuery) iter.Seq2[carillon.Run, error] {
	return pages(ctx, func(ctx context.Context, cursor Cursor) (Page[carillon.Run], error) {
		return c.RunsOfPage(ctx, q, cursor)
	})
}

// RunsOfPage reads one page of RunsOf; the first has no cursor.
func (c *Client) RunsOfPage(
	ctx context.Context, q carillon.RunQuery, cursor Cursor,
) (Page[carillon.Run], error) {
	p := newParams(cursor, q.Limit)
	p.list("state", words(&q))
	return c.runPage(ctx, jobPath(q.Job)+"/runs", p)
}

// Refusal is a job that an application submitted inside its database and that was not admitted, with the
// reason.
type Refusal = wire.Refusal

// Refused goes over the jobs that were submitted inside a database and refused, latest first.
func (c *Client) Refused(ctx context.Context, limit int) iter.Seq2[Refusal, error] {
	return pages(ctx, func(ctx context.Context, cursor Cursor) (Page[Refusal], error) {
		return c.RefusedPage(ctx, limit, cursor)
	})
}

// RefusedPage reads one page of Refused; the first has no cursor.
func (c *Client) RefusedPage(ctx context.Context, limit int, cursor Cursor) (page Page[Refusal], err error) {
	err = c.call(
		ctx, request{method: http.MethodGet, path: "/v1/refused", query: newParams(cursor, limit).Values},
		&page,
	)
	return page, err
}

func (c *Client) runPage(ctx context.Context, path string, p params) (page Page[carillon.Run], err error) {
	err = c.call(ctx, request{method: http.MethodGet, path: path, query: p.Values}, &page)
	return page, err
}

// CancelRun ends a waiting run, or asks the worker that holds the run to stop it. The job's schedule goes on.
func (c *Client) CancelRun(ctx context.Context, id carillon.RunID) (run carillon.Run, err error) {
	err = c.write(ctx, request{method: http.MethodPost, path: runPath(id) + "/cancel"}, &run)
	return run, err
}

// RetryRun adds a run that repeats an ended one. A run that waits for its next attempt makes that attempt
// now, and RetryRun returns that same run.
func (c *Client) RetryRun(ctx context.Context, id carillon.RunID) (run carillon.Run, err error) {
	err = c.write(ctx, request{method: http.MethodPost, path: runPath(id) + "/retry"}, &run)
	return run, err
}

// SaveCheckpoint keeps a checkpoint for the next attempt of the run. ErrLost: the run is no longer in the
// attempt that the fence belongs to, so the caller should stop.
func (c *Client) SaveCheckpoint(
	ctx context.Context, id carillon.RunID, fence int64, checkpoint []byte,
) error {
	header := http.Header{
		wire.FenceHeader: {strconv.FormatInt(fence, 10)}, "Content-Type": {"application/octet-stream"},
	}
	return c.call(
		ctx,
		request{method: http.MethodPut, path: runPath(id) + "/checkpoint", header: header, body: checkpoint},
		nil,
	)
}

func runPath(id carillon.RunID) string { return "/v1/runs/" + id.String() }
