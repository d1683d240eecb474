package carillon

import (
	"encoding/json"
	"slices"
	"strconv"
)

// Overlap says what becomes of a due run while another run of the job is unfinished.
type Overlap string

const (
	OverlapSkip     Overlap = "skip"      // it is skipped, and says so
	OverlapQueue    Overlap = "queue"     // one waits; further ones are skipped
	OverlapQueueAll Overlap = "queue_all" // all wait their turn
	OverlapReplace  Overlap = "replace"   // the older one is stopped, and once it is gone this one starts
	OverlapAllow    Overlap = "allow"     // they run side by side
)

var overlaps = []Overlap{OverlapSkip, OverlapQueue, OverlapQueueAll, OverlapReplace, OverlapAllow}

// maxQueued bounds how many runs of one job may wait behind another: the list is part of the guard.
const maxQueued = 1000

// turns is what the overlap guard of a job holds: whose turn it is, and who waits behind it. A run has its turn from
// its first claim to its end, so also while it waits for a retry.
type turns struct {
	Holder Time   `json:"holder,omitempty"`
	Beside []Time `json:"beside,omitempty"` // begun too: they ran side by side until an edit put an end to that
	Queue  []Time `json:"queue,omitempty"`  // not begun
	// Claimed is the latest claim of the job that is known here: of each holder's first attempt, and of the last attempt of every
	// run that has ended. The next claim is later, so fences rise from run to run, whichever node's clock is behind.
	Claimed Time `json:"claimed,omitempty"`
	// Named is the latest name that was given to a run which was asked for; see unused.
	Named Time `json:"named,omitempty"`
	// Replaced counts runs by the clock that were replaced in line before they began. Their successors were numbered as if
	// they would run, and a due time that was skipped does not count for max_runs.
	Replaced int `json:"replaced,omitempty"`
}

// OverlapKey is the key of a job's overlap guard.
func OverlapKey(job JobID) string { return "overlap/" + job.String() }

// NewOverlapGuard is the guard of a job none of whose runs has a turn.
func NewOverlapGuard(job *Job) Guard {
	return turns{}.guard(Guard{Namespace: job.Namespace, Key: OverlapKey(job.ID)})
}

func turnsOf(g *Guard) turns {
	var t turns
	if g != nil && len(g.Value) > 0 {
		if err := json.Unmarshal(g.Value, &t); err != nil {
			panic("overlap guard " + g.Key + " holds " + strconv.Quote(string(g.Value))) // only this file writes it
		}
	}
	return t
}

func (t turns) guard(g Guard) Guard {
	g.Value, _ = json.Marshal(t)
	return g
}

// with gives a begun run its turn; where one has it already (they ran side by side until now) it comes behind, and
// nobody else gets a turn before both have ended.
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

// before moves a run in front of those in line that repeat another.
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

// free says that the run may take the turn now, unless somebody beside it is held.
func (t turns) free(due Time) bool {
	return t.Holder == due || t.Holder == 0 && (len(t.Queue) == 0 || t.Queue[0] == due)
}

// first is who is in the way: whose turn it is, or who is next.
func (t turns) first() Time {
	if t.Holder == 0 && len(t.Queue) > 0 {
		return t.Queue[0]
	}
	return t.Holder
}

// Heir is the run that should be looked at when the guard's holder has ended; zero if none waits.
func (g *Guard) Heir(job JobID) RunID {
	if t := turnsOf(g); t.Holder == 0 && len(t.Queue) > 0 {
		return RunID{job, t.Queue[0]}
	}
	return RunID{}
}

// Holder is the run whose turn it is; zero if none.
func (g *Guard) Holder(job JobID) RunID {
	if t := turnsOf(g); t.Holder != 0 {
		return RunID{job, t.Holder}
	}
	return RunID{}
}
