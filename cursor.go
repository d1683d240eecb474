package carillon

import "slices"

// DefaultLimit is how many rows a query without a Limit returns.
const DefaultLimit = 100

// RunPart is one section of the order in which FindRuns returns runs.
type RunPart byte

const (
	RunPartUnfinished RunPart = 'u' // of all jobs: by (Due, Job), rising
	RunPartEnded      RunPart = 'e' // of all jobs: by Place, falling; it follows RunPartUnfinished
	RunPartJob        RunPart = 'j' // of one job: by (Due, Place), falling
	RunPartDead       RunPart = 'd' // dead letters: by Place, falling
)

// Unended is the Place of an unfinished run among the runs of its job: it comes before all ended runs with
// the same due time.
const Unended int64 = 1<<63 - 1

// RunPos is a position in the order of FindRuns: the last run of a page. Place numbers ended runs in the
// order in which they ended; the store assigns it. Fields that the order of the part does not use are zero.
type RunPos struct {
	Part  RunPart
	Due   Time
	Job   JobID
	Place int64
}

// String is the cursor for the position. Every store uses the same cursors, so that pages can be compared.
func (p RunPos) String() string {
	b := []byte{byte(p.Part)}
	switch p.Part {
	case RunPartUnfinished:
		b = appendDigits(appendDigits(b, uint64(p.Due), idDigits), uint64(p.Job), idDigits)
	case RunPartJob:
		b = appendDigits(appendDigits(b, uint64(p.Due), idDigits), uint64(p.Place), idDigits)
	default:
		b = appendDigits(b, uint64(p.Place), idDigits)
	}
	return string(b)
}

// Start is the position after which the page begins: the given cursor, or a position before the first run.
// Start is strict: a cursor of another kind of query would silently leave runs out.
func (q *RunQuery) Start() (RunPos, error) {
	if q.After == "" {
		return q.first(), nil
	}
	p, ok := parseRunPos(q.After)
	if first := q.first().Part; !ok ||
		p.Part != first && (p.Part != RunPartEnded || first != RunPartUnfinished) {
		return RunPos{}, invalid(
			"cursor", q.After, "the next_cursor of the page before, with the same other parameters",
		)
	}
	return p, nil
}

func (q *RunQuery) first() RunPos {
	switch {
	case q.Dead:
		return RunPos{Part: RunPartDead, Place: Unended}
	case q.Job != 0:
		return RunPos{Part: RunPartJob, Due: Never, Place: Unended}
	}
	return RunPos{Part: RunPartUnfinished}
}

func parseRunPos(s string) (RunPos, bool) {
	if s == "" {
		return RunPos{}, false
	}
	p := RunPos{Part: RunPart(s[0])}
	digits := s[1:]
	switch p.Part {
	case RunPartEnded, RunPartDead:
		place, ok := parseDigits(digits, idDigits)
		p.Place = int64(place)
		return p, ok && p.Place >= 0
	case RunPartUnfinished, RunPartJob:
		if len(digits) != 2*idDigits {
			return RunPos{}, false
		}
		due, ok1 := parseDigits(digits[:idDigits], idDigits)
		second, ok2 := parseDigits(digits[idDigits:], idDigits)
		if p.Due = Time(due); p.Part == RunPartJob {
			p.Place = int64(second)
		} else {
			p.Job = JobID(second)
		}
		return p, ok1 && ok2 && p.Due >= 0 && int64(second) >= 0
	}
	return RunPos{}, false
}

// Wants says whether the query asks for a run, wherever the store read it from. It does not check Labels,
// which are the job's.
func (q *RunQuery) Wants(r *Run) bool {
	return (q.Namespace == "" || q.Namespace == r.Namespace) &&
		(q.Job == 0 || q.Job == r.ID.Job) &&
		q.wantsState(r) &&
		(q.Worker == "" || q.Worker == r.Worker) &&
		(q.From == 0 || r.ID.Due >= q.From) &&
		(q.To == 0 || r.ID.Due < q.To) &&
		(!q.Present || r.State != StateWaiting || min(r.ID.Due, r.Wake) <= q.Now) &&
		(!q.Dead || q.wantsDead(r))
}

func (q *RunQuery) wantsState(r *Run) bool {
	if len(q.States) == 0 && len(q.Statuses) == 0 || slices.Contains(q.States, r.State) {
		return true
	}
	status, any := r.Status(q.Now)
	return any && slices.Contains(q.Statuses, status)
}

// Within are the states that wanted runs can be in; none: any. A store searches these states and asks Wants
// about each run.
func (q *RunQuery) Within() []State {
	states := slices.Clone(q.States)
	for _, status := range q.Statuses {
		states = append(states, status.Within()...)
	}
	return states
}

// Wants says whether the query asks for a job. It does not check States and Latest, which follow from the
// job's runs.
func (q *JobQuery) Wants(j *Job) bool {
	return (q.Namespace == "" || q.Namespace == j.Namespace) &&
		(q.Owner == "" || q.Owner == j.Owner) &&
		(q.Type == "" || q.Type == j.Type) &&
		(q.Name == "" || q.Name == j.Name) &&
		!slices.ContainsFunc(q.Labels, func(l Label) bool { return !j.has(l) }) &&
		(q.wantsParts() || j.Labels[WorkflowLabel] == "") &&
		(q.CreatedFrom == 0 || j.Created >= q.CreatedFrom) &&
		(q.CreatedTo == 0 || j.Created < q.CreatedTo)
}

// wantsParts says that the jobs of the nodes of workflows are not left out.
func (q *JobQuery) wantsParts() bool {
	return q.Parts || slices.ContainsFunc(q.Labels, func(l Label) bool { return l.Key == WorkflowLabel })
}

func (j *Job) has(l Label) bool {
	value, labeled := j.Labels[l.Key]
	return labeled && l.Value == value
}

// After is the job as it is once a change is committed that was decided on the snapshot.
func (w JobSnapshot) After(c *Change) Job {
	job := w.Job
	if c.Job != nil {
		job = *c.Job
	}
	left := len(w.Runs)
	for i := range c.Runs {
		switch ended, added := c.Runs[i].State.Ended(), c.Runs[i].Rev == 0; {
		case ended && !added:
			left--
		case added && !ended:
			left++
		}
	}
	if job.State == JobActive && left == 0 {
		job.State = JobFinished
	}
	return job
}

// StateOf is the state of a job, given its unfinished runs: an active job without one is Finished.
func (j *Job) StateOf(unfinished []Run) JobState {
	if j.State == JobActive && len(unfinished) == 0 {
		return JobFinished
	}
	return j.State
}
