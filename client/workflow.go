package client

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"net/url"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/wire"
)

// Workflow is how far a run of a workflow is, Node how far one of its nodes is. NodeItems counts the items of
// a node that maps over a list. Package workflow builds the definition of a workflow.
type (
	Workflow  = wire.Workflow
	Node      = wire.Node
	NodeItems = wire.NodeItems
)

// Workflow reads how far a run of a workflow is. ErrConflict: the run is that of another job.
func (c *Client) Workflow(ctx context.Context, id carillon.RunID) (flow Workflow, err error) {
	err = c.call(ctx, request{method: http.MethodGet, path: runPath(id) + "/workflow"}, &flow)
	return flow, err
}

// NodeQuery asks for nodes of a run of a workflow.
type NodeQuery struct {
	States []carillon.NodeState // none: in any state
	Limit  int                  // the size of a page; 0: the server's choice
}

// Nodes goes over the nodes of a run of a workflow, in the order of its definition.
func (c *Client) Nodes(ctx context.Context, id carillon.RunID, q NodeQuery) iter.Seq2[Node, error] {
	return pages(ctx, func(ctx context.Context, cursor Cursor) (Page[Node], error) {
		return c.NodePage(ctx, id, q, cursor)
	})
}

// NodePage reads one page of Nodes; the first has no cursor.
func (c *Client) NodePage(
	ctx context.Context, id carillon.RunID, q NodeQuery, cursor Cursor,
) (page Page[Node], err error) {
	p := newParams(cursor, q.Limit)
	p.list("state", texts(q.States))
	err = c.call(ctx, request{
		method: http.MethodGet, path: runPath(id) + "/nodes", query: p.Values,
	}, &page)
	return page, err
}

// RetryNode begins a node once more that failed or was canceled, while its workflow goes on. id is the run of
// the workflow. The answer is the run that begins; that of a node with a list is the run of the workflow.
func (c *Client) RetryNode(
	ctx context.Context, id carillon.RunID, node string,
) (run carillon.Run, err error) {
	err = c.write(ctx, request{method: http.MethodPost, path: nodePath(id, node) + "/retry"}, &run)
	return run, err
}

// SkipNode lets the nodes that follow a node go on as if it had succeeded. It is for nodes that have not
// begun, or that did not succeed.
func (c *Client) SkipNode(ctx context.Context, id carillon.RunID, node string) (run carillon.Run, err error) {
	err = c.write(ctx, request{method: http.MethodPost, path: nodePath(id, node) + "/skip"}, &run)
	return run, err
}

// ResumeRun adds a run of a workflow that begins where one that did not succeed ended: nodes that succeeded
// are not run again, and their results are used.
func (c *Client) ResumeRun(ctx context.Context, id carillon.RunID) (run carillon.Run, err error) {
	err = c.write(ctx, request{method: http.MethodPost, path: runPath(id) + "/resume"}, &run)
	return run, err
}

// Signal sends a signal to a run of a workflow. The payload (nil: null) is the result of the node that waits
// for it. If id is the run of that node, the name can be empty. ErrConflict: it was sent before.
func (c *Client) Signal(
	ctx context.Context, id carillon.RunID, name string, payload json.RawMessage,
) (run carillon.Run, err error) {
	body := wire.SignalRequest{Name: name, Payload: payload}
	err = c.write(ctx, request{method: http.MethodPost, path: runPath(id) + "/signal", body: body}, &run)
	return run, err
}

func nodePath(id carillon.RunID, node string) string {
	return runPath(id) + "/nodes/" + url.PathEscape(node)
}
