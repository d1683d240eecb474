package carillon

import "encoding/json"

// HookLabel is the label of a hook's job: the run that it is about. Callers find the jobs of a run's hooks by
// it.
const HookLabel = reservedLabel + "hook-of"

// hookFacts is the payload of a hook's job, and the body of a webhook.
type hookFacts struct {
	Type string    `json:"type"` // run.failed, run.succeeded or run.late
	At   Time      `json:"timestamp"`
	Data hookAbout `json:"data"`
	// Payload is that of the hook, not that of the run.
	Payload json.RawMessage `json:"payload,omitempty"`
}

type hookAbout struct {
	Run    runFacts          `json:"run"`
	Labels map[string]string `json:"labels"` // of the run's job
}

// runFacts are some fields of a run, with the names that the API gives them. They leave out what can be large
// or secret: payload, result and checkpoint.
type runFacts struct {
	ID        RunID  `json:"id"`
	Job       JobID  `json:"job_id"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Type      string `json:"type"`
	Owner     string `json:"owner"`
	Queue     string `json:"queue"`
	Version   int32  `json:"version"`
	State     State  `json:"state"`
	Reason    string `json:"reason,omitempty"`
	Hold      string `json:"hold,omitempty"`
	Attempt   int32  `json:"attempt"`
	Failures  int32  `json:"failures"`
	Losses    int32  `json:"losses"`
	Due       Time   `json:"due_at"`
	Covers    Time   `json:"covers_at,omitzero"`
	Started   Time   `json:"started_at"`
	Ended     Time   `json:"ended_at"`
	Worker    string `json:"worker_id,omitempty"`
	RetryOf   RunID  `json:"retry_of,omitzero"`
}

// hookEnds notes the hooks of runs that have ended by themselves. A run that was canceled or skipped has
// none.
func (c *Change) hookEnds(job *Job) {
	if job.OnFailure == nil && job.OnSuccess == nil {
		return
	}
	for i := range c.Runs {
		switch run := &c.Runs[i]; run.State {
		case StateFailed:
			c.hook(hookFailure, job.OnFailure, job, run, run.Ended)
		case StateSucceeded:
			c.hook(hookSuccess, job.OnSuccess, job, run, run.Ended)
		}
	}
}

var hookEvents = map[string]string{
	hookFailure: "run.failed", hookSuccess: "run.succeeded", hookLate: "run.late",
}

// hook notes the job of a hook, which is due at now.
func (c *Change) hook(name string, h *Hook, of *Job, run *Run, now Time) {
	if h == nil {
		return
	}
	job := &Job{Namespace: of.Namespace, Definition: h.definition(name, &of.Definition)}
	_ = job.admitAllButSchedule() // the rest of the defaults; it was found right with the definition
	facts := hookFacts{
		Type: hookEvents[name], At: now, Payload: job.Payload,
		Data: hookAbout{Run: factsOf(of, run), Labels: of.Labels},
	}
	job.Payload = must(marshal(facts))
	job.Labels[HookLabel] = run.ID.String()
	job.Schedule.At = now
	c.Hooks = append(c.Hooks, job)
}

func factsOf(job *Job, r *Run) runFacts {
	f := runFacts{
		ID: r.ID, Job: r.ID.Job, Namespace: r.Namespace, Name: job.Name, Type: job.Type, Owner: job.Owner,
		Queue: r.Queue, Version: r.Version, State: r.State, Reason: r.Reason, Attempt: r.Attempt,
		Failures: r.Failures, Losses: r.Losses, Due: r.ID.Due, Covers: r.Covers, Started: r.Started,
		Ended: r.Ended, Worker: r.Worker,
	}
	if r.State == StateWaiting {
		f.Hold = r.Hold
	}
	if r.RetryOf != 0 {
		f.RetryOf = RunID{r.ID.Job, r.RetryOf}
	}
	return f
}

// Late tells the late hook of a waiting run that it is late. If there is nothing to tell yet, at is when to
// ask again; zero: never.
func (d *Candidate) Late(now Time) (c Change, at Time, is bool) {
	if !d.Run.Has(FlagLate) || d.Run.State != StateWaiting || d.Run.Has(FlagOnHold) || d.Job.Late == nil {
		return Change{}, 0, false
	}
	if at = d.lateAt(); now < at {
		return Change{}, at, false
	}
	run := d.Run
	run.Flags &^= FlagLate
	c.Runs = []Run{run}
	c.hook(hookLate, d.Job.Late, d.Job, &d.Run, now)
	return c, 0, true
}

// lateAt is from when on the run is late.
func (d *Candidate) lateAt() Time { return d.Run.ID.Due.Add(d.Job.Late.After.Std()) }

// startsLate notes the late hook of a run that the change claims, if it is late and the hook was not told
// before. A run that has started is not late any more.
func (d *Candidate) startsLate(c *Change, now Time) {
	run := &c.Runs[0]
	if !run.Has(FlagLate) {
		return
	}
	run.Flags &^= FlagLate
	if d.Job.Late != nil && now >= d.lateAt() {
		c.hook(hookLate, d.Job.Late, d.Job, run, now)
	}
}
