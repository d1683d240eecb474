package client

import (
	"context"
	"iter"
	"net/http"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/wire"
)

// OperationRequest says what to do with which jobs or dead letters. OperationAnswer is the operation that has
// begun, or what a dry run has found.
type (
	OperationRequest = wire.OperationRequest
	OperationAnswer  = wire.OperationAnswer
	SampleJob        = wire.SampleJob
	SampleLetter     = wire.SampleLetter
)

// StartOperation begins an operation, which the server performs in the background. With DryRun it only counts
// the jobs or dead letters.
func (c *Client) StartOperation(
	ctx context.Context, want OperationRequest,
) (answer OperationAnswer, err error) {
	err = c.write(ctx, request{method: http.MethodPost, path: operationsPath, body: want}, &answer)
	return answer, err
}

// Operation reads an operation.
func (c *Client) Operation(
	ctx context.Context, id carillon.OperationID,
) (op carillon.Operation, err error) {
	err = c.call(ctx, request{method: http.MethodGet, path: operationPath(id)}, &op)
	return op, err
}

// CancelOperation ends an operation. What it has done stays. The gate of a release is closed again, for the
// runs that still wait.
func (c *Client) CancelOperation(
	ctx context.Context, id carillon.OperationID,
) (op carillon.Operation, err error) {
	err = c.write(ctx, request{method: http.MethodPost, path: operationPath(id) + "/cancel"}, &op)
	return op, err
}

// Operations goes over the operations in some states (none given: in any), newest first. limit is the size of
// a page.
func (c *Client) Operations(
	ctx context.Context, states []carillon.OperationState, limit int,
) iter.Seq2[carillon.Operation, error] {
	return pages(ctx, func(ctx context.Context, cursor Cursor) (Page[carillon.Operation], error) {
		return c.OperationPage(ctx, states, limit, cursor)
	})
}

// OperationPage reads one page of Operations; the first has no cursor.
func (c *Client) OperationPage(
	ctx context.Context, states []carillon.OperationState, limit int, cursor Cursor,
) (page Page[carillon.Operation], err error) {
	p := newParams(cursor, limit)
	words := make([]string, len(states))
	for i, state := range states {
		words[i] = string(state)
	}
	p.list("state", words)
	err = c.call(ctx, request{method: http.MethodGet, path: operationsPath, query: p.Values}, &page)
	return page, err
}

const operationsPath = "/v1/operations"

func operationPath(id carillon.OperationID) string { return operationsPath + "/" + id.String() }
