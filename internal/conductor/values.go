package conductor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/ledger"
)

// Values reads what the placeholders of nodes stand for: the results of other nodes, and the payload of the
// workflow.
type Values struct {
	store  carillon.Store
	ledger *ledger.Ledger
}

// NewValues returns a reader.
func NewValues(store carillon.Store, ledger *ledger.Ledger) *Values { return &Values{store, ledger} }

// Fill returns the job of a node with its values, for a run that is handed out. It returns the job itself if
// it needs none. bad says why the run cannot be performed with these values.
func (v *Values) Fill(ctx context.Context, job *carillon.Job) (filled *carillon.Job, bad, err error) {
	nodes, needs := job.NeedsValues()
	part, is := job.Part()
	if !needs || !is {
		return job, nil, nil
	}
	of := carillon.JobVersion{Job: part.Run.Job, Version: part.Version}
	jobs, err := v.ledger.Definitions.Get(ctx, []carillon.JobVersion{of})
	if err != nil {
		return nil, nil, err
	}
	if jobs[0] == nil || jobs[0].Target.Workflow == nil || jobs[0].Namespace != job.Namespace {
		return nil, errors.New("the workflow of the node is gone"), nil
	}
	p, err := v.progress(ctx, job.Namespace, part.Run)
	if err != nil || p == nil {
		return nil, errors.New("the progress of the workflow is gone"), err
	}
	values, err := v.read(ctx, jobs[0], part.Run, p, nodes)
	if err != nil {
		return nil, nil, err
	}
	own := *job
	if err := own.Fill(values); err != nil {
		return nil, err, nil
	}
	return &own, nil, nil
}

// progress reads the progress of a run; nil: there is none.
func (v *Values) progress(
	ctx context.Context, namespace string, id carillon.RunID,
) (*carillon.Progress, error) {
	guards, err := v.store.Guards(ctx, carillon.GuardQuery{
		Namespace: namespace, Keys: []string{id.WorkflowKey()},
	})
	if err != nil || len(guards) == 0 {
		return nil, err
	}
	return carillon.ProgressOf(guards[0].Value)
}

// list is the list that a map stands for. bad says why it is none.
func (v *Values) list(
	ctx context.Context, workflow *carillon.Job, id carillon.RunID, p *carillon.Progress, of string,
) (items []json.RawMessage, bad, err error) {
	node := carillon.Definition{Payload: json.RawMessage(must(json.Marshal(of)))}
	names, _ := node.NeedsValues()
	values, err := v.read(ctx, workflow, id, p, names)
	if err != nil {
		return nil, nil, err
	}
	items, bad = values.List(of)
	return items, bad, nil
}

func must(b []byte, _ error) []byte { return b } // a text can be written

// read reads the payload of a run and the results of nodes.
func (v *Values) read(
	ctx context.Context, workflow *carillon.Job, id carillon.RunID, p *carillon.Progress, nodes []string,
) (*carillon.Values, error) {
	values := &carillon.Values{Results: map[string][]byte{}}
	if p.Payload {
		runs, err := v.store.Runs(ctx, []carillon.RunID{id}, true)
		if err != nil {
			return nil, err
		}
		values.Payload = workflow.Payload
		if len(runs) > 0 && runs[0].Output != nil && runs[0].Output.Payload != nil {
			values.Payload = runs[0].Output.Payload
		}
	}
	for _, name := range nodes {
		node, known := workflow.Target.Workflow.NodeIndex(name)
		if !known {
			continue
		}
		result, err := v.result(ctx, workflow.Namespace, p, node)
		if err != nil {
			return nil, fmt.Errorf("read the result of %s: %w", name, err)
		}
		values.Results[name] = result
	}
	return values, nil
}

// result is the result of a node that succeeded; nil: it has none. That of a node which maps over a list is
// the list of the results of its items.
func (v *Values) result(
	ctx context.Context, namespace string, p *carillon.Progress, node int,
) ([]byte, error) {
	if m := p.Map(node); m != nil {
		return v.results(ctx, namespace, m)
	}
	id, has := p.JobOf(node)
	if !has || p.State(node) != carillon.NodeSucceeded {
		return nil, nil
	}
	return v.latest(ctx, namespace, id)
}

// latest is the result of the latest run of a job that succeeded.
func (v *Values) latest(ctx context.Context, namespace string, id carillon.JobID) ([]byte, error) {
	page, err := v.store.FindRuns(ctx, carillon.RunQuery{
		Namespace: namespace, Job: id, States: []carillon.State{carillon.StateSucceeded}, Limit: 1,
	})
	if err != nil || len(page.Runs) == 0 {
		return nil, err
	}
	runs, err := v.store.Runs(ctx, []carillon.RunID{page.Runs[0].ID}, true)
	if err != nil || len(runs) == 0 || runs[0].Output == nil {
		return nil, err
	}
	return runs[0].Output.Result, nil
}

// jsonOf is a result as an item of a list: a result that is no JSON becomes a text.
func jsonOf(result []byte) []byte {
	switch {
	case len(result) == 0:
		return []byte("null")
	case json.Valid(result):
		return result
	}
	return must(json.Marshal(string(result)))
}

// resultsPage is how many results are read at a time.
const resultsPage = 500

// results is the list of the results of items, null for one that has none.
func (v *Values) results(ctx context.Context, namespace string, m *carillon.MapProgress) ([]byte, error) {
	list := bytes.NewBufferString("[")
	for first := 0; first < m.Items; first += resultsPage {
		ids := make([]carillon.RunID, 0, resultsPage)
		for i := first; i < min(first+resultsPage, m.Items); i++ {
			ids = append(ids, carillon.RunID{Job: m.Base.Nth(i), Due: m.Due})
		}
		runs, err := v.store.Runs(ctx, ids, true)
		if err != nil {
			return nil, err
		}
		found := make(map[carillon.JobID][]byte, len(runs))
		for i := range runs {
			if runs[i].State == carillon.StateSucceeded && runs[i].Output != nil {
				found[runs[i].ID.Job] = runs[i].Output.Result
			}
		}
		for i, id := range ids {
			if first+i > 0 {
				list.WriteByte(',')
			}
			list.Write(jsonOf(found[id.Job]))
		}
	}
	list.WriteByte(']')
	return list.Bytes(), nil
}
