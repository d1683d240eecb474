package carillon

import (
	"encoding/json"
	"slices"
	"strconv"
)

// Overlap says what happens to a due run while another run of the job is unfinished.
type Overlap string

const (
	OverlapSkip     Overlap = "skip"      // it is skipped, and its record says why
	OverlapQueue    Overlap = "queue"     // one waits; further ones are skipped
	OverlapQueueAll Overlap = "queue_all" // all wait for their turn
	OverlapReplace  Overlap = "replace"   // the older one is stopped, and this one starts once it is gone
	OverlapAllow    Overlap = "allow"     // they run side by side
)

var overlaps = []Overlap{OverlapSkip, OverlapQueue, OverlapQueueAll, OverlapReplace, OverlapAllow}

// maxQueued bounds how many runs of one job can wait in line: the list is part of the guard.
const maxQueued = 1000

// turns is the value of a job's overlap guard: the run that has the turn, and the runs that wait behind it. A
// run has its turn from its first claim to its end, also while it waits for a retry.
type turns struct {
	Holder Time   `json:"holder,omitempty"`
	Beside []Time `json:"beside,omitempty"` // begun too: they ran side by side until an edit forbade it
	Queue  []Time `json:"queue,omitempty"`  // not begun
	// Claimed is the latest claim of the job that the guard knows: the first claim of each holder, and the
	// last claim of every ended run. The next claim is later, so fences rise from run to run, even if a
	// node's clock is behind.
	Claimed Time `json:"claimed,omitempty"`
	// Named is the latest name (due time) that was given to a run that a caller asked for; see unused.
	Named Time `json:"named,omitempty"`
	// Replaced counts runs by the clock that were replaced in line before they began. Their successors were
	// numbered as if they would run, but a skipped due time does not count for max_runs.
	Replaced int `json:"replaced,omitempty"`
}

// OverlapKey is the key of a job's overlap guard.
func (id JobID) OverlapKey() string { return "overlap/" + id.String() }

// OverlapGuard is the guard of a job without a run that has the turn or waits for it.
func (j *Job) OverlapGuard() Guard {
	return turns{}.guard(Guard{Namespace: j.Namespace, Key: j.ID.OverlapKey()})
}

func turnsOf(g *Guard) turns {
	var t turns
	if g != nil && len(g.Value) > 0 {
		if err := json.Unmarshal(g.Value, &t); err != nil {
			// Only this file writes the value.
			panic("overlap guard " + g.Key + " holds " + strconv.Quote(string(g.Value)))
		}
	}
	return t
}

func (t turns) guard(g Guard) Guard {
	g.Value, _ = json.Marshal(t)
	return g
}

// with gives a begun run the turn. If another run has it already (they ran side by side until now), this one
// goes beside it, and no other run gets the turn before both have ended.
func (t turns) with(due Time) turns {
	if t.Holder == 0 {
		t.Holder = due
	} else {
		t.Beside = append(slices.Clone(t.Beside), due)
	}
	return t
}

// without takes a run out, wherever it stands.
func (t turns) without(due Time) turns {
	gone := func(d Time) bool { return d == due }
	t.Beside = slices.DeleteFunc(slices.Clone(t.Beside), gone)
	t.Queue = slices.DeleteFunc(slices.Clone(t.Queue), gone)
	if t.Holder == due {
		t.Holder = 0
		if len(t.Beside) > 0 {
			t.Holder, t.Beside = t.Beside[0], t.Beside[1:]
		}
	}
	return t
}

// ended takes out a run that has ended, and remembers when its last attempt was claimed.
func (t turns) ended(run *Run) turns {
	t = t.without(run.ID.Due)
	t.Claimed = max(t.Claimed, run.Claimed)
	return t
}

// before moves a run in front of the runs at the end of the line that repeat another run.
func (t turns) before(due Time, others []Run) turns {
	repeats := func(d Time) bool {
		return slices.ContainsFunc(others, func(r Run) bool { return r.ID.Due == d && r.RetryOf != 0 })
	}
	t = t.without(due)
	i := len(t.Queue)
	for i > 0 && repeats(t.Queue[i-1]) {
		i--
	}
	t.Queue = slices.Insert(t.Queue, i, due)
	return t
}

// has says that the run has its turn or a place in the line.
func (t turns) has(due Time) bool {
	return t.Holder == due || slices.Contains(t.Beside, due) || slices.Contains(t.Queue, due)
}

// free says that the run can take the turn now, unless a worker holds a run beside it.
func (t turns) free(due Time) bool {
	return t.Holder == due || t.Holder == 0 && (len(t.Queue) == 0 || t.Queue[0] == due)
}

// first is the run in the way: the one that has the turn, or the next in line.
func (t turns) first() Time {
	if t.Holder == 0 && len(t.Queue) > 0 {
		return t.Queue[0]
	}
	return t.Holder
}

// NextInLine is the run of the job to decide about when the run that had the turn has ended: the next in
// line; zero if none waits.
func (g Guards) NextInLine(job JobID) RunID {
	if t := g.turns(); t.Holder == 0 && len(t.Queue) > 0 {
		return RunID{job, t.Queue[0]}
	}
	return RunID{}
}

// Holder is the run of the job whose turn it is; zero if none.
func (g Guards) Holder(job JobID) RunID {
	if t := g.turns(); t.Holder != 0 {
		return RunID{job, t.Holder}
	}
	return RunID{}
}

// InLine says where a run stands that has a place in the line of its job, but not the turn. first is the run
// that has the turn, or the next in line; zero: the run does not wait for its turn. ahead is how many
// unfinished runs of the job come before it. place is its number in line; 0: it has begun, beside the run
// whose turn it is.
func (r *Run) InLine(guards Guards) (first RunID, ahead, place int) {
	t := guards.turns()
	if !r.Has(FlagGuarded) || !t.has(r.ID.Due) || t.free(r.ID.Due) {
		return RunID{}, 0, 0
	}
	queued := slices.Index(t.Queue, r.ID.Due) // -1: it has begun
	ahead, place = len(t.Beside)+queued, queued
	if t.Holder != 0 { // without a holder, the first in line is the run that it is behind
		ahead, place = ahead+1, place+1
	}
	return RunID{r.ID.Job, t.first()}, ahead, place
}

// TurnCame says that a run waited in line and its turn has come. Its wake is still that of a run in line; the
// claim corrects it.
func (r *Run) TurnCame(guards Guards, now Time) bool {
	t := guards.turns()
	return r.Has(FlagGuarded) && r.Attempt == 0 && t.has(r.ID.Due) && t.free(r.ID.Due) && r.ready(now) <= now
}
