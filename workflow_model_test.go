package carillon_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/carillon-run/carillon"
)

var flowSeed = flag.Uint64("flow-seed", 0, "seed of the random workflows; 0: a new one")

// reference says of each node where it stands, by reading the graph over and over until nothing changes.
// begun are the nodes that have a run, that ended after they had one, or that a caller skipped.
func reference(w *carillon.Workflow, begun map[string]carillon.NodeState) map[string]carillon.NodeState {
	is := map[string]carillon.NodeState{}
	for name, state := range begun {
		is[name] = state
	}
	met := func(e carillon.Edge) (met, broken bool) {
		state, decided := is[e.Node]
		if !decided || !state.Ended() {
			return false, false
		}
		good := state == carillon.NodeSucceeded || state == carillon.NodePassed
		bad := state == carillon.NodeFailed || state == carillon.NodeCanceled
		met = e.On == carillon.OnAny || e.On == carillon.OnSuccess && good ||
			e.On == carillon.OnFailure && bad
		return met, !met
	}
	for changed := true; changed; {
		changed = false
		for i := range w.Nodes {
			node, nMet, nBroken := &w.Nodes[i], 0, 0
			if _, decided := is[node.Name]; decided {
				continue
			}
			for _, e := range node.After {
				if m, b := met(e); m {
					nMet++
				} else if b {
					nBroken++
				}
			}
			n, all := len(node.After), node.Join == carillon.JoinAll
			switch {
			case n == 0, all && nMet == n, !all && nMet > 0:
				is[node.Name], changed = carillon.NodeActive, true
			case all && nBroken > 0, !all && nBroken == n:
				is[node.Name], changed = carillon.NodeSkipped, true
			}
		}
	}
	return is
}

// flowWorld performs the folds of one run of a workflow, as the ledger does, and keeps what they insert.
type flowWorld struct {
	*testing.T
	rand   *rand.Rand
	job    *carillon.Job
	run    carillon.Run
	guard  carillon.Guard
	begun  map[string]carillon.NodeState // for the reference
	jobs   map[carillon.JobID]bool
	open   map[carillon.JobID]carillon.Part // runs that have not ended
	items  map[string]int                   // of a map: how many have not ended
	bad    map[string]int
	record map[string]int // terminal records of each node
	base   carillon.JobID
}

func (f *flowWorld) fold(fold carillon.Fold) bool {
	f.Helper()
	is, ok := fold.Step(f.guard, 1000)
	again, _ := fold.Step(f.guard, 1000)
	if ok && string(is.Value) != string(again.Value) {
		f.Fatal("a step is not pure")
	}
	if !ok {
		return false
	}
	for _, c := range fold.Insert(&f.guard, &is, 1000) {
		for i := range c.Runs {
			f.insert(&c, &c.Runs[i])
		}
	}
	f.guard = is
	return true
}

func (f *flowWorld) insert(c *carillon.Change, run *carillon.Run) {
	f.Helper()
	switch {
	case c.Job != nil && f.jobs[c.Job.ID]:
		f.Fatalf("the job of %s is inserted twice", c.Job.Name)
	case c.Job == nil && !f.jobs[run.ID.Job]:
		f.Fatalf("a run of the job %s, which does not exist", run.ID.Job)
	}
	f.jobs[run.ID.Job] = true
	part := f.part(c, run)
	if run.State.Ended() {
		f.record[f.name(part)]++
		return
	}
	if _, twice := f.open[run.ID.Job]; twice {
		f.Fatalf("%s begins twice", f.name(part))
	}
	f.open[run.ID.Job] = part
	if part.Item < 0 {
		f.begun[f.name(part)] = carillon.NodeActive
	}
}

// part is what a run is of, by its id: the jobs of nodes are a block, and those of items are others.
func (f *flowWorld) part(c *carillon.Change, run *carillon.Run) carillon.Part {
	if c.Job != nil {
		part, is := c.Job.Part()
		if !is || !run.Has(carillon.FlagPart) || part.Run != f.run.ID || run.ID.Job != c.Job.ID {
			f.Fatalf("the job of a node is %+v", c.Job)
		}
		return part
	}
	for i := range f.job.Target.Workflow.Nodes {
		if f.base.Nth(i) == run.ID.Job {
			return carillon.Part{Run: f.run.ID, Version: 1, Node: i, Item: -1}
		}
	}
	f.Fatalf("a run of a job that is no node")
	return carillon.Part{}
}

func (f *flowWorld) name(p carillon.Part) string { return f.job.Target.Workflow.Nodes[p.Node].Name }

// check compares the progress with the reference.
func (f *flowWorld) check(what string) *carillon.Progress {
	f.Helper()
	p, err := carillon.ProgressOf(f.guard.Value)
	if err != nil {
		f.Fatal(err)
	}
	if p.Stop != carillon.StopNone {
		return p
	}
	want, open := reference(f.job.Target.Workflow, f.begun), 0
	for i := range f.job.Target.Workflow.Nodes {
		node := &f.job.Target.Workflow.Nodes[i]
		got, should := p.State(i), want[node.Name]
		if _, begun := f.begun[node.Name]; node.Map != "" && should == carillon.NodeActive && !begun {
			should = carillon.NodeExpanding
			f.begun[node.Name] = should // it goes on, whatever becomes of those before it
		}
		if got != should {
			f.Fatalf("after %s: %s is %s, the reference says %s\n%s", what, node.Name, got, should, f.show())
		}
		if !got.Ended() {
			open++
		}
	}
	if p.Open != open {
		f.Fatalf("after %s: %d nodes are open, counted %d", what, open, p.Open)
	}
	return p
}

func (f *flowWorld) show() string {
	b, _ := json.MarshalIndent(f.job.Target.Workflow, "", " ")
	return string(b)
}

// randomWorkflow is a graph of up to some nodes, each after nodes of lower numbers.
func randomWorkflow(r *rand.Rand) *carillon.Workflow {
	w := &carillon.Workflow{}
	for i := range 1 + r.IntN(12) {
		node := carillon.WorkflowNode{Definition: carillon.Definition{
			Name: fmt.Sprint("n", i), Type: "test", Target: carillon.Target{Handler: &carillon.Handler{}},
		}}
		for k := range i {
			if r.IntN(3) == 0 {
				node.After = append(node.After, carillon.Edge{
					Node: fmt.Sprint("n", k),
					On:   []carillon.On{"", carillon.OnSuccess, carillon.OnFailure, carillon.OnAny}[r.IntN(4)],
				})
			}
		}
		if len(node.After) > 0 {
			node.Join = []carillon.Join{"", carillon.JoinAll, carillon.JoinAny}[r.IntN(3)]
		}
		if r.IntN(5) == 0 {
			node.Map = "${payload.list}"
		}
		w.Nodes = append(w.Nodes, node)
	}
	return w
}

func newFlow(t *testing.T, r *rand.Rand, w *carillon.Workflow) *flowWorld {
	def := carillon.Definition{Target: carillon.Target{Workflow: w}}
	if err := def.Admit(1); err != nil {
		t.Fatal(err)
	}
	job := &carillon.Job{Namespace: "default", ID: 7, Version: 1, Definition: def}
	return &flowWorld{
		T: t, rand: r, job: job, run: carillon.NewRun(job, 1), base: carillon.JobID(1 << 40),
		begun: map[string]carillon.NodeState{}, jobs: map[carillon.JobID]bool{},
		open: map[carillon.JobID]carillon.Part{}, items: map[string]int{}, bad: map[string]int{},
		record: map[string]int{},
	}
}

// One random life of a workflow after the other: each step is compared with the reference, no job is inserted
// twice, and at the end each node has its records.
func TestTheRuleOfWorkflowsIsThatOfTheReference(t *testing.T) {
	seed := *flowSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-flow-seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	for range 3000 {
		f := newFlow(t, r, randomWorkflow(r))
		if !f.fold(carillon.StartOf(f.job, &f.run, f.base)) {
			t.Fatal("it does not start")
		}
		if f.fold(carillon.StartOf(f.job, &f.run, f.base)) {
			t.Fatal("it starts twice")
		}
		retries := r.IntN(4)
		stopped := false
		for p := f.check("the start"); p.Open > 0; {
			switch n := r.IntN(12); {
			case n == 0 && retries > 0 && !stopped:
				retries--
				f.change(p)
			case n == 1 && r.IntN(10) == 0 && !stopped:
				stopped = f.fold(carillon.StopOf(f.job, f.run.ID, carillon.StopCanceled))
			default:
				f.advance(p)
			}
			p = f.check("a step")
		}
		if len(f.open) > 0 {
			t.Fatalf("it is over, and runs are open: %v", f.open)
		}
		if kind, _ := mustProgress(t, &f.guard).Outcome(f.job.Target.Workflow); stopped &&
			kind != carillon.OutcomeStopped {
			t.Fatalf("a stopped one ends as %d", kind)
		}
		for i := range f.job.Target.Workflow.Nodes {
			name := f.job.Target.Workflow.Nodes[i].Name
			if f.record[name] < 1 {
				t.Fatalf("%s has no terminal record\n%s", name, f.show())
			}
		}
	}
}

func mustProgress(t *testing.T, g *carillon.Guard) *carillon.Progress {
	p, err := carillon.ProgressOf(g.Value)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// advance ends a run, or expands a map.
func (f *flowWorld) advance(p *carillon.Progress) {
	w := f.job.Target.Workflow
	for i := range w.Nodes {
		if p.State(i) != carillon.NodeExpanding {
			continue
		}
		name := w.Nodes[i].Name
		if f.rand.IntN(4) == 0 {
			f.begun[name] = carillon.NodeFailed
			f.fold(carillon.FailOf(f.job, f.run.ID, i, "no list"))
			return
		}
		items := make([]json.RawMessage, f.rand.IntN(4))
		for k := range items {
			items[k] = json.RawMessage(`{"a":1}`)
		}
		base := carillon.JobID(1<<50 + f.rand.Int64N(1<<30)<<12)
		if f.items[name], f.bad[name], f.begun[name] = len(items), 0, carillon.NodeActive; len(items) == 0 {
			f.begun[name] = carillon.NodeSucceeded
		}
		if !f.fold(carillon.ExpandOf(f.job, f.run.ID, i, items, base)) ||
			f.fold(carillon.ExpandOf(f.job, f.run.ID, i, items, base)) {
			f.Fatal("it must be expanded once")
		}
		return
	}
	ids := make([]carillon.JobID, 0, len(f.open))
	for id := range f.open {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	id := ids[f.rand.IntN(len(ids))]
	part := f.open[id]
	delete(f.open, id)
	name := f.name(part)
	state := []carillon.NodeState{
		carillon.NodeSucceeded, carillon.NodeSucceeded, carillon.NodeFailed, carillon.NodeCanceled,
	}[f.rand.IntN(4)]
	switch {
	case part.Item < 0:
		f.begun[name] = state
		f.record[name]++
	default:
		f.items[name]--
		if state != carillon.NodeSucceeded {
			f.bad[name]++
		}
		if f.items[name] == 0 {
			f.begun[name] = carillon.NodeSucceeded
			if f.bad[name] > 0 {
				f.begun[name] = carillon.NodeFailed
			}
		}
	}
	end := carillon.PartEnd{Part: part, Namespace: "default", Job: id, State: state}
	f.fold(end.EndOf(f.job))
}

// change retries a node that did not succeed, or passes one.
func (f *flowWorld) change(p *carillon.Progress) {
	w := f.job.Target.Workflow
	i := f.rand.IntN(len(w.Nodes))
	name, state := w.Nodes[i].Name, p.State(i)
	bad := state == carillon.NodeFailed || state == carillon.NodeCanceled
	if f.rand.IntN(2) == 0 {
		if bad {
			delete(f.begun, name)
		}
		if won := f.fold(carillon.RetryOf(f.job, f.run.ID, i)); won != bad {
			f.Fatalf("a retry of a node that is %s: %t", state, won)
		}
		return
	}
	may := bad || state == carillon.NodePending || state == carillon.NodeExpanding ||
		state == carillon.NodeSkipped
	if may {
		f.begun[name] = carillon.NodePassed
	}
	if won := f.fold(carillon.PassOf(f.job, f.run.ID, i)); won != may {
		f.Fatalf("a skip of a node that is %s: %t", state, won)
	}
}

func TestStatesOfNodesAreReadAsTheyAreWritten(t *testing.T) {
	for state := carillon.NodePending; state <= carillon.NodePassed; state++ {
		text, err := state.MarshalText()
		var read carillon.NodeState = 99
		if err = errors.Join(err, read.UnmarshalText(text)); err != nil || read != state {
			t.Errorf("%s is read as %d: %v", text, read, err)
		}
	}
	var read carillon.NodeState
	if err := read.UnmarshalText([]byte("done")); !errors.Is(err, carillon.ErrInvalid) {
		t.Errorf("an unknown state: %v", err)
	}
}
