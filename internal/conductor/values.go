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

// Fill puts values in the place of the placeholders of nodes, for runs that are handed out. Each job is a
// copy where something was filled in. bad says, by the index of the job, why a run cannot be performed
// with its values. What several jobs need is read once.
func (v *Values) Fill(
	ctx context.Context, jobs []*carillon.Job,
) (filled []*carillon.Job, bad map[int]error, err error) {
	filled, bad = make([]*carillon.Job, len(jobs)), map[int]error{}
	flows := map[carillon.Part]*flow{}
	for i, job := range jobs {
		filled[i] = job
		nodes, needs := job.NeedsValues()
		part, is := job.Part()
		if !needs || !is {
			continue
		}
		part.Node, part.Item = 0, 0
		if flows[part] == nil {
			if flows[part], err = v.open(ctx, job.Namespace, part); err != nil {
				return nil, nil, err
			}
		}
		values, err := flows[part].read(ctx, nodes)
		if unusable := (*unusableError)(nil); errors.As(err, &unusable) {
			bad[i] = unusable
			continue
		} else if err != nil {
			return nil, nil, err
		}
		own := *job
		if err := own.Fill(values); err != nil {
			bad[i] = err
			continue
		}
		filled[i] = &own
	}
	return filled, bad, nil
}

// unusableError says why a node has no values: no later try will find them.
type unusableError struct{ why string }

func (e *unusableError) Error() string { return e.why }

// flow is one run of a workflow, and what was read of it.
type flow struct {
	*Values
	id       carillon.RunID
	job      *carillon.Job
	progress *carillon.Progress

	payload *[]byte // nil: not read
	results map[string][]byte
}

// open reads the definition and the progress of a run. A flow without them has no values.
func (v *Values) open(ctx context.Context, namespace string, part carillon.Part) (*flow, error) {
	f := &flow{Values: v, id: part.Run, results: map[string][]byte{}}
	jobs, err := v.ledger.Definitions.Get(ctx, []carillon.JobVersion{{
		Job: part.Run.Job, Version: part.Version,
	}})
	if err != nil {
		return nil, err
	}
	if jobs[0] != nil && jobs[0].Target.Workflow != nil && jobs[0].Namespace == namespace {
		f.job = jobs[0]
		f.progress, err = v.progress(ctx, namespace, part.Run)
	}
	return f, err
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
func (f *flow) list(ctx context.Context, of string) (items []json.RawMessage, bad, err error) {
	node := carillon.Definition{Payload: jsonText(of)}
	names, _ := node.NeedsValues()
	values, err := f.read(ctx, names)
	if unusable := (*unusableError)(nil); errors.As(err, &unusable) {
		return nil, unusable, nil
	} else if err != nil {
		return nil, nil, err
	}
	items, bad = values.List(of)
	return items, bad, nil
}

// read reads the payload of the run and the results of nodes, unless it has read them before.
func (f *flow) read(ctx context.Context, nodes []string) (*carillon.Values, error) {
	if f.job == nil || f.progress == nil {
		return nil, &unusableError{"the workflow of the node is gone"}
	}
	if err := f.readPayload(ctx); err != nil {
		return nil, err
	}
	for _, name := range nodes {
		node, known := f.job.Target.Workflow.NodeIndex(name)
		if _, done := f.results[name]; done || !known {
			continue
		}
		result, err := f.result(ctx, node)
		if err != nil {
			return nil, fmt.Errorf("read the result of %s: %w", name, err)
		}
		f.results[name] = result
	}
	return &carillon.Values{Payload: *f.payload, Results: f.results}, nil
}

func (f *flow) readPayload(ctx context.Context) error {
	if f.payload != nil {
		return nil
	}
	f.payload = new([]byte)
	if !f.progress.Payload {
		return nil
	}
	*f.payload = f.job.Payload
	runs, err := f.store.Runs(ctx, []carillon.RunID{f.id}, true)
	if len(runs) > 0 && runs[0].Output != nil && runs[0].Output.Payload != nil {
		*f.payload = runs[0].Output.Payload
	}
	return err
}

// result is the result of a node that succeeded; nil: it has none. That of a node which maps over a list is
// the list of the results of its items.
func (f *flow) result(ctx context.Context, node int) ([]byte, error) {
	id, has := f.progress.JobOf(node)
	if !has || f.progress.State(node) != carillon.NodeSucceeded {
		return nil, nil
	}
	if m := f.progress.Map(node); m != nil {
		return f.items(ctx, m)
	}
	return f.latest(ctx, id, f.job.Target.Workflow.Nodes[node].Name)
}

// latest is the result of the latest run of a job that succeeded.
func (f *flow) latest(ctx context.Context, id carillon.JobID, name string) ([]byte, error) {
	page, err := f.store.FindRuns(ctx, carillon.RunQuery{
		Namespace: f.job.Namespace, Job: id, States: []carillon.State{carillon.StateSucceeded}, Limit: 1,
	})
	if err != nil {
		return nil, err
	}
	if len(page.Runs) == 0 { // null in its place would be a lie
		return nil, &unusableError{"the result of " + name +
			" is no longer kept: retention.runs of the workflow is shorter than its run"}
	}
	runs, err := f.store.Runs(ctx, []carillon.RunID{page.Runs[0].ID}, true)
	if err != nil || len(runs) == 0 || runs[0].Output == nil {
		return nil, err
	}
	return runs[0].Output.Result, nil
}

// itemsPage is how many results are read at a time.
const itemsPage = 500

// items is the list of the results of items, null for one that has none.
func (f *flow) items(ctx context.Context, m *carillon.MapProgress) ([]byte, error) {
	list := bytes.NewBufferString("[")
	for first := 0; first < m.Items; first += itemsPage {
		ids := make([]carillon.RunID, 0, itemsPage)
		for i := first; i < min(first+itemsPage, m.Items); i++ {
			ids = append(ids, carillon.RunID{Job: m.Base.Nth(i), Due: m.Due})
		}
		found, err := f.itemResults(ctx, ids)
		if err != nil {
			return nil, err
		}
		for i, id := range ids {
			if first+i > 0 {
				list.WriteByte(',')
			}
			list.Write(jsonOf(found[id.Job]))
		}
		if list.Len() > carillon.MaxPayload { // no payload has room for it
			return nil, &unusableError{"the results of the items have more than 256 KiB"}
		}
	}
	list.WriteByte(']')
	return list.Bytes(), nil
}

// itemResults are the results of the first runs of items. An item that was retried has a later run.
func (f *flow) itemResults(
	ctx context.Context, ids []carillon.RunID,
) (map[carillon.JobID][]byte, error) {
	runs, err := f.store.Runs(ctx, ids, true)
	if err != nil {
		return nil, err
	}
	found := make(map[carillon.JobID][]byte, len(ids))
	for i := range runs {
		if runs[i].State != carillon.StateSucceeded {
			continue
		}
		found[runs[i].ID.Job] = nil
		if runs[i].Output != nil {
			found[runs[i].ID.Job] = runs[i].Output.Result
		}
	}
	for _, id := range ids {
		if _, has := found[id.Job]; has {
			continue
		}
		if found[id.Job], err = f.latest(ctx, id.Job, "an item"); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// jsonOf is a result as an item of a list: a result that is no JSON becomes a text.
func jsonOf(result []byte) []byte {
	switch {
	case len(result) == 0:
		return []byte("null")
	case json.Valid(result):
		return result
	}
	return jsonText(string(result))
}

func jsonText(s string) []byte {
	b, _ := json.Marshal(s) // a text can be written
	return b
}
