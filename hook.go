package carillon

import (
	"cmp"
	"encoding/json"
	"maps"
	"time"
)

// Hook is what follows the end of a run, or a run that is late: another job, or a call of a URL. The change
// that ends the run submits it, so it is neither lost nor submitted twice. Hooks have no hooks.
type Hook struct {
	// Job is a job that is submitted with the facts of the run as its payload.
	Job *HookJob `json:"job,omitempty"`
	// Webhook is short for a Job that sends the facts, signed, to a URL.
	Webhook *Webhook `json:"webhook,omitempty"`
	// After is how long after its due time a run that has not started is late. Only Late has it.
	After Duration `json:"after,omitzero"`
}

// HookJob is the definition of the job that a hook submits. It has the fields that a one-off needs, with
// their meaning in Definition; retention and share are those of the run's job. A field that is zero takes its
// default when the job is submitted, so Zero stays in it.
type HookJob struct {
	Name     string            `json:"name,omitempty"`  // default: the hook, and that of the run's job
	Type     string            `json:"type,omitempty"`  // default: the kind of the target
	Owner    string            `json:"owner,omitempty"` // default: that of the run's job
	Labels   map[string]string `json:"labels,omitempty"`
	Queue    string            `json:"queue,omitempty"` // default: that of the run's job
	Needs    map[string]string `json:"needs,omitempty"`
	Priority int               `json:"priority,omitempty"` // default: that of the run's job
	Limits   []Limit           `json:"limits,omitempty"`
	Payload  json.RawMessage   `json:"payload,omitempty"` // the facts have it under "payload"
	Target   Target            `json:"target"`
	Timeout  Duration          `json:"timeout,omitempty"`
	Retry    Retry             `json:"retry"`
}

// Webhook is a URL that gets the facts of a run by POST, signed as Standard Webhooks says.
type Webhook struct {
	URL    string `json:"url"`
	Secret string `json:"secret"` // see Sign
}

// The names of hooks, as in the JSON of a definition.
const (
	hookFailure = "on_failure"
	hookSuccess = "on_success"
	hookLate    = "late"
)

const (
	minLateAfter = Duration(time.Second)
	maxLateAfter = Duration(365 * 24 * time.Hour)
	// maxHookPayload leaves room for the facts beside it.
	maxHookPayload = 128 << 10
)

// namedHook is a hook of a definition with its name.
type namedHook struct {
	name string
	hook **Hook
}

func (d *Definition) hooks() [3]namedHook {
	return [3]namedHook{{hookFailure, &d.OnFailure}, {hookSuccess, &d.OnSuccess}, {hookLate, &d.Late}}
}

// hasHooks says that the definition has a hook. Most have none, and pay only for this question.
func (d *Definition) hasHooks() bool {
	return d.OnFailure != nil || d.OnSuccess != nil || d.Late != nil
}

// admitHooks checks the hooks. An empty one is none: so an edit can remove a hook.
func (d *Definition) admitHooks() *FieldError {
	if !d.hasHooks() {
		return nil
	}
	for _, h := range d.hooks() {
		switch {
		case *h.hook == nil:
		case **h.hook == (Hook{}):
			*h.hook = nil
		default:
			if err := (*h.hook).admit(h.name, d); err != nil {
				return err.In(h.name)
			}
		}
	}
	return nil
}

func (h *Hook) admit(name string, of *Definition) *FieldError {
	const either = "exactly one of job or webhook"
	switch {
	case h.Job == nil && h.Webhook == nil:
		return invalid("", "", either).because("neither job nor webhook is given")
	case h.Job != nil && h.Webhook != nil:
		return invalid("", "job and webhook", either).because("both job and webhook are given")
	case name == hookLate && (h.After < minLateAfter || h.After > maxLateAfter ||
		h.After%Duration(time.Millisecond) != 0):
		return invalid("after", h.After, "1s to 365d: how long after its due time a run is late")
	case name != hookLate && h.After != 0:
		return invalid("after", h.After, "no after: only late has one").because("it is given")
	}
	under := "job"
	if h.Webhook != nil {
		under = "webhook"
		if err := admitSecret(h.Webhook.Secret); err != nil {
			return err.In(under)
		}
	} else if err := h.Job.admit(); err != nil {
		return err.In(under)
	}
	def := h.definition(name, of)
	if err := def.admitReserved(nil); err != nil {
		return err.In(under)
	}
	if err := def.admitNoNode(); err != nil {
		if h.Webhook != nil && err.Field == "target.http.url" {
			err.Field = "url"
		}
		return err.In(under)
	}
	return nil
}

// admit checks what only the job of a hook must not have.
func (j *HookJob) admit() *FieldError {
	switch {
	case j.Target.Workflow != nil || j.Target.Wait != nil:
		return invalid("target", j.Target.Kind(), "exactly one of command, http or handler").
			because("a hook cannot begin a workflow")
	case len(j.Payload) > maxHookPayload:
		return invalid("payload", byteCount(len(j.Payload)), "at most 128 KiB of JSON").
			because("it has %s", byteCount(len(j.Payload)))
	}
	return nil
}

// definition is that of the job that the hook submits for a run of a job with the given definition, without
// its payload and its time.
func (h *Hook) definition(name string, of *Definition) Definition {
	from := HookJob{}
	if h.Job != nil {
		from = *h.Job
	} else {
		from.Target.HTTP = &HTTP{
			Method: "POST", URL: h.Webhook.URL, Sign: &Sign{Secret: h.Webhook.Secret},
		}
	}
	d := Definition{
		Name: from.Name, Type: from.Type, Owner: from.Owner, Labels: maps.Clone(from.Labels),
		Queue: from.Queue, Needs: from.Needs, Priority: from.Priority, Limits: from.Limits,
		Payload: from.Payload, Target: from.Target, Timeout: from.Timeout, Retry: from.Retry,
		FairBy: of.FairBy, FairWeight: of.FairWeight, Retention: of.Retention,
	}
	if d.Target.HTTP != nil { // its defaults are filled in
		request := *d.Target.HTTP
		d.Target.HTTP = &request
	}
	by := defaults(&d.Target)
	by.Owner, by.Queue, by.Priority = of.Owner, of.Queue, of.Priority
	if of.Priority == 0 {
		by.Priority = Zero
	}
	d.fill(by)
	d.fill(Definition{}) // Zero of the defaults
	if d.Name == "" {
		d.Name = hookName(name, of.Name)
	}
	return d
}

// hookName is the name of a hook's job that has none of its own.
func hookName(hook, of string) string {
	name := []rune(hook + ": " + cmp.Or(of, "job"))
	return string(name[:min(len(name), 200)])
}

// hooksWeight is about how many bytes the hooks have.
func (d *Definition) hooksWeight() (n int) {
	if !d.hasHooks() {
		return 0
	}
	for _, h := range d.hooks() {
		if *h.hook == nil {
			continue
		}
		if job := (*h.hook).Job; job != nil {
			n += 40 + len(job.Name) + len(job.Type) + len(job.Payload) + job.Target.weight()
			for key, value := range job.Labels {
				n += len(key) + len(value) + 6
			}
		}
		if w := (*h.hook).Webhook; w != nil {
			n += len(w.URL) + len(w.Secret)
		}
	}
	return n
}
