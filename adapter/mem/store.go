package mem

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/carillon-run/carillon"
)

// Store is the reference model of carillon.Store: maps and sorted sets under one mutex. It keeps copies of
// its arguments and returns copies, so only Commit can change a row.
type Store struct {
	mu      sync.Mutex
	jobs    map[carillon.JobID]*job
	ids     sorted[carillon.JobID]
	runs    map[carillon.RunID]carillon.Run // unfinished
	dues    sorted[carillon.RunID]          // of runs, by (Due, Job)
	wakes   sorted[carillon.WakePos]        // of runs
	lines   sorted[linePos]                 // of runs with a Hold
	ofJob   map[carillon.JobID]*sorted[carillon.Time]
	history table
	dead    table
	outputs map[carillon.RunID]carillon.Output
	// attempts are the records of attempts of each run, by number.
	attempts map[carillon.RunID][]carillon.Attempt
	guards   map[guardKey]carillon.Guard
}

var _ carillon.Store = (*Store)(nil)

// job has the latest definition of a job and the older ones.
type job struct {
	carillon.Job
	oneOff bool // as first submitted
	older  map[int32]carillon.Definition
}

type guardKey struct{ namespace, key string }

// NewStore returns an empty store.
func NewStore() *Store {
	return &Store{
		jobs:     map[carillon.JobID]*job{},
		ids:      sorted[carillon.JobID]{compare: cmp.Compare[carillon.JobID]},
		runs:     map[carillon.RunID]carillon.Run{},
		dues:     sorted[carillon.RunID]{compare: compareDues},
		wakes:    sorted[carillon.WakePos]{compare: compareWakes},
		lines:    sorted[linePos]{compare: compareLines},
		ofJob:    map[carillon.JobID]*sorted[carillon.Time]{},
		history:  newTable(),
		dead:     newTable(),
		outputs:  map[carillon.RunID]carillon.Output{},
		attempts: map[carillon.RunID][]carillon.Attempt{},
		guards:   map[guardKey]carillon.Guard{},
	}
}

func compareDues(a, b carillon.RunID) int {
	return cmp.Or(cmp.Compare(a.Due, b.Due), cmp.Compare(a.Job, b.Job))
}

func compareWakes(a, b carillon.WakePos) int {
	return cmp.Or(cmp.Compare(a.Wake, b.Wake), compareDues(a.ID, b.ID))
}

// Commit implements carillon.Store.
func (s *Store) Commit(ctx context.Context, changes []carillon.Change) (lost []int, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for at := 0; at < len(changes); {
		end := at + carillon.JoinedFrom(changes[at:])
		stand := s.stand(changes[at:end])
		for ; at < end; at++ {
			if stand {
				s.apply(&changes[at])
			} else {
				lost = append(lost, at)
			}
		}
	}
	return lost, nil
}

// stand compares every row of joined changes before apply writes any.
func (s *Store) stand(joined []carillon.Change) bool {
	for i := range joined {
		if !s.stands(&joined[i]) {
			return false
		}
	}
	return true
}

func (s *Store) stands(c *carillon.Change) bool {
	if c.Job != nil && s.jobRev(c.Job.ID) != c.Job.Rev {
		return false
	}
	for i := range c.Runs {
		if s.runs[c.Runs[i].ID].Rev != c.Runs[i].Rev {
			return false
		}
	}
	for _, g := range c.Guards {
		if s.guards[guardKey{g.Namespace, g.Key}].Rev != g.Rev || g.Rev == 0 && g.Value == nil {
			return false
		}
	}
	for _, g := range c.Compared {
		if s.guards[guardKey{g.Namespace, g.Key}].Rev != g.Rev {
			return false
		}
	}
	for _, id := range c.Retried {
		if s.dead.latest(id) == nil {
			return false
		}
	}
	return true
}

func (s *Store) jobRev(id carillon.JobID) int32 {
	if j := s.jobs[id]; j != nil {
		return j.Rev
	}
	return 0
}

func (s *Store) apply(c *carillon.Change) {
	if c.Job != nil {
		s.putJob(c.Job)
	}
	for i := range c.Runs {
		s.putRun(&c.Runs[i])
	}
	for _, g := range c.Guards {
		key := guardKey{g.Namespace, g.Key}
		if g.Value == nil {
			delete(s.guards, key)
			continue
		}
		g.Rev, g.First = g.NextRev(), 0
		g.Value = bytes.Clone(g.Value)
		s.guards[key] = g
	}
	for _, id := range c.Retried {
		s.dead.remove(s.dead.latest(id).place)
	}
}

// putJob writes the definition only if it has a new version; the previous definition stays readable.
func (s *Store) putJob(given *carillon.Job) {
	was := s.jobs[given.ID]
	if was == nil {
		j := &job{Job: *given, oneOff: !given.Schedule.Recurring(), older: map[int32]carillon.Definition{}}
		j.Definition = cloneDefinition(given.Definition)
		j.Rev = 1
		s.jobs[given.ID] = j
		s.ids.add(given.ID)
		return
	}
	was.Rev++
	was.State, was.Updated = given.State, given.Updated
	if was.Version != given.Version {
		was.older[was.Version] = was.Definition
		was.Version, was.Definition = given.Version, cloneDefinition(given.Definition)
	}
}

func (s *Store) putRun(given *carillon.Run) {
	if given.Output != nil {
		s.putOutput(given.ID, *given.Output)
	}
	run := s.unfinished(given)
	s.removeRun(given.ID)
	if !given.State.Ended() {
		s.runs[given.ID] = run
		s.dues.add(given.ID)
		s.wakes.add(given.WakePos())
		if run.Hold != "" {
			s.lines.add(lineOf(&run))
		}
		if s.ofJob[given.ID.Job] == nil {
			s.ofJob[given.ID.Job] = &sorted[carillon.Time]{compare: cmp.Compare[carillon.Time]}
		}
		s.ofJob[given.ID.Job].add(given.ID.Due)
		return
	}
	s.history.add(ended(given))
	if given.State == carillon.StateFailed {
		if was := s.dead.latest(given.ID); was != nil {
			s.dead.remove(was.place)
		}
		run := ended(given)
		run.Expires, run.DeadExpires = 0, given.DeadExpires
		s.dead.add(run)
	}
}

// unfinished returns the row as the store keeps it. The fields that a run is born with do not change.
func (s *Store) unfinished(given *carillon.Run) carillon.Run {
	run := *given
	if was, found := s.runs[given.ID]; found {
		run.Namespace, run.Covers, run.RetryOf, run.Seq = was.Namespace, was.Covers, was.RetryOf, was.Seq
		run.Flags = run.Flags&^carillon.FlagAdditional | was.Flags&carillon.FlagAdditional
	}
	run.Rev++
	run.About, run.Output = nil, nil
	run.Until, run.Ended, run.Expires, run.DeadExpires = 0, 0, 0, 0
	return run
}

// ended returns the record that remains of a run.
func ended(given *carillon.Run) carillon.Run {
	run := *given
	run.About, run.Output = &carillon.About{}, nil
	if given.About != nil {
		*run.About = *given.About
	}
	run.Rev, run.Wake, run.Flags, run.DeadExpires = 0, 0, 0, 0
	run.Needs, run.Share, run.Hold, run.Slots = "", "", "", ""
	return run
}

func (s *Store) removeRun(id carillon.RunID) {
	was, found := s.runs[id]
	if !found {
		return
	}
	s.dues.remove(id)
	s.wakes.remove(was.WakePos())
	if was.Hold != "" {
		s.lines.remove(lineOf(&was))
	}
	if of := s.ofJob[id.Job]; of != nil {
		if of.remove(id.Due); len(of.blocks) == 0 {
			delete(s.ofJob, id.Job)
		}
	}
	delete(s.runs, id)
}

func (s *Store) putOutput(id carillon.RunID, given carillon.Output) {
	kept := s.outputs[id]
	if given.Result != nil {
		kept.Result = bytes.Clone(given.Result)
	}
	if given.Checkpoint != nil {
		kept.Checkpoint = bytes.Clone(given.Checkpoint)
	}
	if given.Payload != nil {
		kept.Payload = bytes.Clone(given.Payload)
	}
	if given.Attempt != nil {
		s.putAttempt(id, *given.Attempt)
	}
	if kept.Result != nil || kept.Checkpoint != nil || kept.Payload != nil {
		s.outputs[id] = kept
	}
}

func (s *Store) putAttempt(id carillon.RunID, given carillon.Attempt) {
	kept := s.attempts[id]
	i, found := slices.BinarySearchFunc(kept, given.Number, func(a carillon.Attempt, number int32) int {
		return cmp.Compare(a.Number, number)
	})
	if found {
		kept[i] = given
		return
	}
	s.attempts[id] = slices.Insert(kept, i, given)
}

func cloneDefinition(d carillon.Definition) carillon.Definition {
	d.Labels, d.Needs, d.Payload = maps.Clone(d.Labels), maps.Clone(d.Needs), slices.Clone(d.Payload)
	d.Limits, d.Retry.Rules = slices.Clone(d.Limits), d.Retry.Rules.Clone()
	if d.Unique != nil {
		unique := *d.Unique
		d.Unique = &unique
	}
	d.Target = cloneTarget(d.Target)
	d.OnFailure, d.OnSuccess, d.Late = cloneHook(d.OnFailure), cloneHook(d.OnSuccess), cloneHook(d.Late)
	return d
}

func cloneTarget(t carillon.Target) carillon.Target {
	if c := t.Command; c != nil {
		command := *c
		command.Argv, command.Env = slices.Clone(c.Argv), maps.Clone(c.Env)
		command.FatalExitCodes = slices.Clone(c.FatalExitCodes)
		t.Command = &command
	}
	if h := t.HTTP; h != nil {
		request := *h
		request.Headers = maps.Clone(h.Headers)
		if h.Sign != nil {
			sign := *h.Sign
			request.Sign = &sign
		}
		t.HTTP = &request
	}
	if w := t.Workflow; w != nil {
		workflow := &carillon.Workflow{Nodes: slices.Clone(w.Nodes), Deadline: w.Deadline}
		for i := range workflow.Nodes {
			node := &workflow.Nodes[i]
			node.After, node.Definition = slices.Clone(node.After), cloneDefinition(node.Definition)
		}
		t.Workflow = workflow
	}
	if t.Wait != nil {
		wait := *t.Wait
		t.Wait = &wait
	}
	return t
}

func cloneHook(h *carillon.Hook) *carillon.Hook {
	if h == nil {
		return nil
	}
	hook := *h
	if h.Job != nil {
		job := *h.Job
		job.Labels, job.Needs = maps.Clone(job.Labels), maps.Clone(job.Needs)
		job.Limits, job.Retry.Rules = slices.Clone(job.Limits), job.Retry.Rules.Clone()
		job.Payload, job.Target = slices.Clone(job.Payload), cloneTarget(job.Target)
		hook.Job = &job
	}
	if h.Webhook != nil {
		webhook := *h.Webhook
		hook.Webhook = &webhook
	}
	return &hook
}
