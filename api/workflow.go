package api

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/jobjson"
	"github.com/carillon-run/carillon/internal/wire"
)

func (s *server) workflowRoutes() []route {
	var run carillon.Run
	return []route{
		{
			Method: "GET", Pattern: "/v1/runs/{id}/workflow",
			Summary: "Show how far a run of a workflow is",
			Status:  200, Gives: wire.Workflow{}, handle: s.getWorkflow,
		},
		{
			Method: "GET", Pattern: "/v1/runs/{id}/nodes",
			Summary: "List the nodes of a run of a workflow, in the order of its definition",
			Query: append([]param{
				{"state", "states of nodes, separated by commas", nil},
			}, paging...),
			Status: 200, Gives: wire.Page[wire.Node]{}, handle: s.listNodes,
		},
		{
			Method: "POST", Pattern: "/v1/runs/{id}/nodes/{name}/retry",
			Summary: "Begin a node once more that failed or was canceled, while its workflow goes on",
			Status:  200, Gives: run, Keyed: true, handle: s.retryNode,
		},
		{
			Method: "POST", Pattern: "/v1/runs/{id}/nodes/{name}/skip",
			Summary: "Let those that follow a node go on as if it had succeeded",
			Status:  200, Gives: run, Keyed: true, handle: s.skipNode,
		},
		{
			Method: "POST", Pattern: "/v1/runs/{id}/resume",
			Summary: "Add a run of a workflow that goes on where one that did not succeed ended",
			Status:  201, Gives: run, Keyed: true, handle: s.resumeRun,
		},
		{
			Method: "POST", Pattern: "/v1/runs/{id}/signal",
			Summary: "Send a signal to a run of a workflow, or to the node that waits for it",
			Takes:   wire.SignalRequest{}, Status: 200, Gives: run, Keyed: true, handle: s.signalRun,
		},
	}
}

// workflow reads the run that the path names, the workflow's definition of its version, and its progress;
// nil: the run has not begun.
func (s *server) workflow(r *http.Request) (
	run carillon.Run, job *carillon.Job, p *carillon.Progress, err error,
) {
	if run, err = s.run(r, false); err != nil {
		return run, nil, nil, err
	}
	jobs, err := s.Store.Jobs(r.Context(), []carillon.JobVersion{run.Definition()})
	if err != nil {
		return run, nil, nil, err
	}
	if len(jobs) == 0 || jobs[0].Target.Workflow == nil {
		return run, nil, nil, fmt.Errorf("%w: %s is no run of a workflow", carillon.ErrConflict, run.ID)
	}
	guards, err := s.Store.Guards(r.Context(), carillon.GuardQuery{
		Namespace: run.Namespace, Keys: []string{run.ID.WorkflowKey()},
	})
	if err != nil {
		return run, nil, nil, err
	}
	p = carillon.NewProgress(len(jobs[0].Target.Workflow.Nodes), 0)
	if len(guards) > 0 {
		if p, err = carillon.ProgressOf(guards[0].Value); err != nil {
			return run, nil, nil, err
		}
	}
	return run, &jobs[0], p, nil
}

func (s *server) getWorkflow(w http.ResponseWriter, r *http.Request, _ *query) error {
	run, job, p, err := s.workflow(r)
	if err != nil {
		return err
	}
	shown := wire.Workflow{Run: run, Counts: map[string]int{}, Nodes: p.Nodes()}
	for node := range p.Nodes() {
		shown.Counts[p.State(node).String()]++
	}
	if d := job.Target.Workflow.Deadline; d != 0 && p.Start != 0 {
		shown.Deadline = p.Start.Add(d.Std())
	}
	return reply(w, http.StatusOK, shown)
}

func (s *server) listNodes(w http.ResponseWriter, r *http.Request, q *query) error {
	limit, first, states := q.limit(), 0, q.nodeStates()
	if cursor := q.cursor(); cursor != "" {
		var err error
		if first, err = strconv.Atoi(cursor); err != nil || first < 0 {
			q.fail("cursor", cursor, "the next_cursor of the page before")
		}
	}
	if q.err != nil {
		return q.err
	}
	_, job, p, err := s.workflow(r)
	if err != nil {
		return err
	}
	nodes, next := []wire.Node{}, ""
	for i := first; i < p.Nodes(); i++ {
		if states != nil && !slices.Contains(states, p.State(i)) {
			continue
		}
		if len(nodes) == limit {
			next = strconv.Itoa(i)
			break
		}
		node, err := s.node(r, job, p, i)
		if err != nil {
			return err
		}
		nodes = append(nodes, node)
	}
	return reply(w, http.StatusOK, wire.NewPage(nodes, q.nextCursor(next)))
}

func (q *query) nodeStates() (states []carillon.NodeState) {
	for _, word := range q.list("state") {
		var state carillon.NodeState
		q.in("state", state.UnmarshalText([]byte(word)))
		states = append(states, state)
	}
	return states
}

func (s *server) node(r *http.Request, job *carillon.Job, p *carillon.Progress, i int) (wire.Node, error) {
	def := &job.Target.Workflow.Nodes[i]
	node := wire.Node{
		Name: def.Name, State: p.State(i), After: def.After, Join: def.Join, Target: def.Target.Kind(),
	}
	if node.After == nil {
		node.After = []carillon.Edge{}
	}
	if node.State == carillon.NodePending {
		for _, edge := range def.After {
			if before, known := job.Target.Workflow.NodeIndex(edge.Node); known && !p.State(before).Ended() {
				node.WaitsFor = append(node.WaitsFor, edge)
			}
		}
	}
	if wait := def.Target.Wait; wait != nil {
		node.Signal = wait.Signal
	}
	if m := p.Map(i); m != nil {
		node.Items = &wire.NodeItems{Total: m.Items, Open: m.Open, Bad: m.Bad}
	}
	id, has := p.JobOf(i)
	if !has {
		return node, nil
	}
	page, err := s.Store.FindRuns(r.Context(), carillon.RunQuery{Namespace: namespace(r), Job: id, Limit: 1})
	if len(page.Runs) > 0 {
		node.Run = &page.Runs[0]
	}
	return node, err
}

func (s *server) retryNode(w http.ResponseWriter, r *http.Request, _ *query) error {
	return s.writeFlow(w, r, showRun, func(id carillon.RunID) (carillon.Run, error) {
		return s.Ledger.RetryNode(r.Context(), namespace(r), id, r.PathValue("name"))
	})
}

func (s *server) skipNode(w http.ResponseWriter, r *http.Request, _ *query) error {
	return s.writeFlow(w, r, showRun, func(id carillon.RunID) (carillon.Run, error) {
		return s.Ledger.SkipNode(r.Context(), namespace(r), id, r.PathValue("name"))
	})
}

func (s *server) resumeRun(w http.ResponseWriter, r *http.Request, _ *query) error {
	return s.writeFlow(w, r, showNew, func(id carillon.RunID) (carillon.Run, error) {
		return s.Ledger.ResumeRun(r.Context(), namespace(r), id)
	})
}

func (s *server) signalRun(w http.ResponseWriter, r *http.Request, _ *query) error {
	body, err := readJSON(w, r, wire.MaxBody)
	if err != nil {
		return err
	}
	var given wire.SignalRequest
	if err := jobjson.Decode(body, &given); err != nil {
		return err
	}
	return s.writeFlow(w, r, showRun, func(id carillon.RunID) (carillon.Run, error) {
		return s.Ledger.Signal(r.Context(), namespace(r), id, given.Name, given.Payload)
	})
}

// writeFlow performs a write about the run that the path names.
func (s *server) writeFlow(
	w http.ResponseWriter, r *http.Request, show func(*carillon.Job, *carillon.Run) outcome,
	do func(carillon.RunID) (carillon.Run, error),
) error {
	id, err := carillon.ParseRunID(r.PathValue("id"))
	if err != nil {
		return err
	}
	return s.write(w, r, show, func() (_ carillon.Job, run carillon.Run, err error) {
		run, err = do(id)
		return carillon.Job{}, run, err
	})
}
