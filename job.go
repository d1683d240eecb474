package carillon

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Size limits of a job and its runs. Larger data belongs in a store made for it; the payload then names the
// place.
const (
	MaxPayload    = 256 << 10
	MaxResult     = 64 << 10
	MaxCheckpoint = 64 << 10
	maxLabels     = 32
	maxTarget     = 64 << 10
)

// DefaultNamespace is the only namespace until tenants come.
const DefaultNamespace = "default"

// JobState is the state of a job. Finished is not stored: a finished job is an active one without an
// unfinished run.
type JobState uint8

const (
	JobActive JobState = iota + 1
	JobPaused
	JobFinished
	JobCanceled
)

var jobStates = []string{"", "active", "paused", "finished", "canceled"}

func (s JobState) String() string                { return jobStates[s] }
func (s JobState) MarshalText() ([]byte, error)  { return []byte(s.String()), nil }
func (s *JobState) UnmarshalText(b []byte) error { return unmarshalState(s, jobStates, b) }

// UnmarshalJSON is for the strict decoder, which asks types for it.
func (s *JobState) UnmarshalJSON(b []byte) error {
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		text = string(b)
	}
	return s.UnmarshalText([]byte(text))
}

// Job is what to do and when. Its definition is immutable per version: an edit adds one. A node reads one for
// each run of a one-off, so a test bounds its size: what is above costs the garbage collector much more.
type Job struct {
	Namespace string   `json:"namespace"`
	ID        JobID    `json:"id"`
	Rev       int32    `json:"-"`       // compared by Commit, rises with every write of the row
	Version   int32    `json:"version"` // of the definition
	State     JobState `json:"state"`
	// Existing says, in the answer to a submit, that the job was there before: see Unique. It is not stored.
	Existing bool `json:"existing,omitempty"`
	Created  Time `json:"created_at"`
	Updated  Time `json:"updated_at"`
	Definition
}

// JobVersion names one definition of a job.
type JobVersion struct {
	Job     JobID
	Version int32
}

// Zero is how Go code says 0 in a field of a Definition whose default is another number: Priority, Timeout,
// Retry.Delay and Retry.Jitter. The zero value of every field means that it is not given, as in JSON.
const Zero = -1

// Definition is the part of a job that users write. A field that is zero takes its default when the
// definition is admitted.
type Definition struct {
	Name   string            `json:"name"`  // default: the type
	Type   string            `json:"type"`  // what handlers register for; default: the kind of the target
	Owner  string            `json:"owner"` // user or application; default "default"
	Labels map[string]string `json:"labels"`
	Queue  string            `json:"queue"` // default "default"
	// Needs are labels that a worker must have to perform runs of the job.
	Needs    map[string]string `json:"needs,omitempty"`
	Priority int               `json:"priority"` // 0-9, higher first; default 5; 0 is Zero
	// FairBy is a key, such as a customer: runs of different keys take turns in a queue, however many runs
	// each of them has. "owner" stands for the job's owner. Default none: such jobs share one turn.
	FairBy string `json:"fair_by,omitempty"`
	// FairWeight is how many turns the key gets where others get one, 1 to 100. Default 1.
	FairWeight int32 `json:"fair_weight"`
	// PauseAfter pauses the job when so many of its runs in a row have failed for good, 1 to 1000. Default
	// none.
	PauseAfter int32 `json:"pause_after,omitempty"`
	// Limits bound how many runs with a key are performed at the same time, or start in a time.
	Limits []Limit `json:"limits,omitempty"`
	// Unique is a key of which there is one job at a time. Default none.
	Unique    *Unique         `json:"unique,omitempty"`
	Payload   json.RawMessage `json:"payload"`
	Schedule  Schedule        `json:"schedule"`
	Target    Target          `json:"target"`
	Timeout   Duration        `json:"timeout"` // of one attempt; Zero: none. Default none, 30s for http
	Retry     Retry           `json:"retry"`
	Overlap   Overlap         `json:"overlap"` // default skip
	Misfire   Misfire         `json:"misfire"` // default once
	Retention Retention       `json:"retention"`
	// OnFailure follows a run that failed for good, OnSuccess one that succeeded. Default none.
	OnFailure *Hook `json:"on_failure,omitempty"`
	OnSuccess *Hook `json:"on_success,omitempty"`
	// Late is told once of a run that has not started in time. Default none.
	Late *Hook `json:"late,omitempty"`
}

// Admit fills in the defaults, checks a definition and resolves what depends on now ("after" becomes "at").
// Every definition passes it once, whether the API, the command line or a Go caller submits it, so a stored
// definition is always sound. In an admitted definition 0 is written as 0, not as Zero.
func (d *Definition) Admit(now Time) error {
	d.fill(defaults(&d.Target))
	if err := d.admit(now); err != nil {
		return err
	}
	if err := d.admitReserved(nil); err != nil {
		return err
	}
	return nil
}

// AdmitEdit is Admit for a definition that replaces another and began as a copy of it, so that there are no
// defaults to fill in. It does not check an unchanged schedule against the clock again: after ends_at that
// check would refuse the schedule, and with it an edit of only the name.
func (d *Definition) AdmitEdit(was *Definition, now Time) error {
	d.fill(Definition{})
	d.keepSecrets(was)
	if err := d.admitUniqueEdit(was); err != nil {
		return err
	}
	if err := d.admitReserved(was.Labels); err != nil {
		return err
	}
	if was.Schedule.Recurring() != d.Schedule.Recurring() {
		return otherKind(&d.Schedule)
	}
	if !was.Schedule.Equal(d.Schedule) {
		if err := d.admit(now); err != nil {
			return err
		}
		return nil
	}
	if err := d.admitNoNode(); err != nil {
		return err
	}
	return nil
}

// defaults are the defaults that do not depend on other fields, except for the timeout of a target.
func defaults(t *Target) Definition {
	d := Definition{
		Owner: "default", Queue: "default", Priority: 5, FairWeight: 1, Overlap: OverlapSkip,
		Retry: Retry{
			MaxAttempts: 3, Backoff: BackoffExponential, Delay: Duration(time.Second), Jitter: 0.2,
			MaxCrashes: 5,
		},
		Misfire: Misfire{Policy: MisfireOnce, Max: 100, Window: Duration(24 * time.Hour)},
	}
	if t.HTTP != nil {
		d.Timeout = Duration(30 * time.Second)
	}
	if t.Workflow != nil {
		d.Retry.MaxAttempts = 1 // its nodes have retries of their own
	}
	return d
}

// fill gives each field that is zero its default, and each field that is Zero the value 0.
func (d *Definition) fill(by Definition) {
	d.Owner, d.Queue = cmp.Or(d.Owner, by.Owner), cmp.Or(d.Queue, by.Queue)
	d.Overlap = cmp.Or(d.Overlap, by.Overlap)
	fill(&d.Priority, by.Priority)
	fill(&d.FairWeight, by.FairWeight)
	fill(&d.PauseAfter, by.PauseAfter)
	fill(&d.Timeout, by.Timeout)
	d.Retry.Backoff = cmp.Or(d.Retry.Backoff, by.Retry.Backoff)
	fill(&d.Retry.MaxAttempts, by.Retry.MaxAttempts)
	fill(&d.Retry.Delay, by.Retry.Delay)
	fill(&d.Retry.MaxDelay, by.Retry.MaxDelay)
	fill(&d.Retry.Jitter, by.Retry.Jitter)
	fill(&d.Retry.MaxCrashes, by.Retry.MaxCrashes)
	d.Misfire.Policy = cmp.Or(d.Misfire.Policy, by.Misfire.Policy)
	fill(&d.Misfire.Max, by.Misfire.Max)
	fill(&d.Misfire.Window, by.Misfire.Window)
	if d.Labels == nil {
		d.Labels = map[string]string{}
	}
	if len(d.Needs) == 0 {
		d.Needs = nil // no map for jobs that need no label
	}
}

func fill[T int | int32 | float64 | Duration](field *T, by T) {
	switch *field {
	case 0:
		*field = by
	case Zero:
		*field = 0
	}
}

func (d *Definition) admit(now Time) *FieldError {
	if err := d.admitNoNode(); err != nil {
		return err
	}
	return d.Schedule.admit(now)
}

func (d *Definition) admitAllButSchedule() *FieldError {
	if err := d.Target.admit(); err != nil {
		return err
	}
	if d.Type == "" {
		if d.Target.Handler != nil {
			return invalid("type", "", "the type that a worker registered a handler for, such as email.send").
				because("a handler needs a type")
		}
		d.Type = d.Target.Kind()
	}
	if d.Name == "" {
		d.Name = d.Type
	}
	if string(d.Payload) == "null" {
		d.Payload = nil
	}
	for _, check := range []func() *FieldError{
		d.admitNames, d.admitNeeds, d.admitLimits, d.admitUnique, d.admitSizes, d.Retry.admit,
		d.Misfire.admit, d.admitPolicies, d.admitUnits, d.admitHooks,
	} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func (d *Definition) admitNames() *FieldError {
	if !printable(d.Name, 200) {
		return invalid("name", d.Name, "1 to 200 printable characters")
	}
	if isID(d.Name) {
		return invalid("name", d.Name, "a name that does not look like the id of a job or run")
	}
	for _, f := range []struct{ field, value string }{
		{"type", d.Type}, {"queue", d.Queue}, {"owner", d.Owner},
	} {
		if !word(f.value, 64) {
			return invalid(f.field, f.value, NameForm)
		}
	}
	if d.FairBy != "" && !word(d.FairBy, 64) {
		return invalid("fair_by", d.FairBy,
			"at most 64 characters of a-z A-Z 0-9 . _ - / @, the first a letter or digit")
	}
	return checkLabels("labels", d.Labels, maxLabels)
}

func (d *Definition) admitSizes() *FieldError {
	if err := admitPayload(d.Payload); err != nil {
		return err
	}
	// A byte of text takes up to 6 in JSON, as \u003c, and the names of fields less than 200 in all. A target
	// that is small even so is not written out only to be measured.
	if 6*d.Target.weight()+200 <= maxTarget {
		return nil
	}
	if d.Target.Workflow != nil {
		if size := d.Target.Workflow.weight(); size > maxWorkflow {
			return invalid("target.workflow", byteCount(size), "at most 8 MiB").
				because("it has %s", byteCount(size))
		}
		return nil
	}
	if target, _ := json.Marshal(d.Target); len(target) > maxTarget {
		return invalid("target", byteCount(len(target)), "at most 64 KiB").
			because("it has %s", byteCount(len(target)))
	}
	return nil
}

// admitPayload checks a payload, of a job or of one run of it.
func admitPayload(payload json.RawMessage) *FieldError {
	switch {
	case len(payload) > MaxPayload:
		return invalid(
			"payload", byteCount(len(payload)),
			"at most 256 KiB of JSON; keep larger data elsewhere and pass its address",
		).because("it has %s", byteCount(len(payload)))
	case len(payload) > 0 && !json.Valid(payload):
		return invalid("payload", string(payload[:min(len(payload), 60)]), "valid JSON")
	}
	return nil
}

func (d *Definition) admitPolicies() *FieldError {
	const century = Duration(100 * 365 * 24 * time.Hour)
	switch {
	case d.Priority < 0 || d.Priority > 9:
		return invalid("priority", d.Priority, "a number from 0 to 9")
	case d.FairWeight < 1 || d.FairWeight > maxFairWeight:
		return invalid("fair_weight", d.FairWeight, "a number from 1 to %d", maxFairWeight)
	case d.PauseAfter < 0 || d.PauseAfter > maxPauseAfter:
		return invalid("pause_after", d.PauseAfter, "a number from 1 to %d, or 0 for none", maxPauseAfter)
	case d.Timeout > Duration(365*24*time.Hour):
		return invalid("timeout", d.Timeout, `at most 365d, or "0s" for none`)
	case d.Timeout > 0 && d.Timeout < Duration(time.Millisecond):
		return invalid("timeout", d.Timeout, `at least 1ms, or "0s" for none`)
	case !slices.Contains(overlaps, d.Overlap):
		return invalid("overlap", d.Overlap, "skip, queue, queue_all, replace or allow")
	case d.Retention.Runs > century:
		return invalid("retention.runs", d.Retention.Runs, "at most 36500d")
	case d.Retention.Logs > century:
		return invalid("retention.logs", d.Retention.Logs, "at most 36500d")
	case d.Retention.DeadLetters > century:
		return invalid("retention.dead_letters", d.Retention.DeadLetters, "at most 36500d")
	}
	return nil
}

// admitUnits refuses values that Go callers can give and JSON cannot express: a store could write them and
// never read them again.
func (d *Definition) admitUnits() *FieldError {
	for _, f := range []struct {
		field string
		value Duration
	}{
		{"timeout", d.Timeout},
		{"retry.delay", d.Retry.Delay},
		{"retry.max_delay", d.Retry.MaxDelay},
		{"misfire.window", d.Misfire.Window},
		{"schedule.after", d.Schedule.After},
		{"schedule.every", d.Schedule.Every},
		{"unique.for", d.uniqueFor()},
		{"retention.runs", d.Retention.Runs},
		{"retention.logs", d.Retention.Logs},
		{"retention.dead_letters", d.Retention.DeadLetters},
	} {
		if f.value < 0 || f.value%Duration(time.Millisecond) != 0 {
			return invalid(f.field, f.value, "whole milliseconds, not negative")
		}
	}
	for _, f := range []struct {
		field string
		value Time
	}{
		{"schedule.at", d.Schedule.At},
		{"schedule.starts_at", d.Schedule.StartsAt},
		{"schedule.ends_at", d.Schedule.EndsAt},
	} {
		if f.value != 0 && (f.value <= minTime || f.value > maxTime) {
			return invalid(f.field, f.value, "a time after 1970-01-01 and before the year 10000")
		}
	}
	return nil
}

// NameForm is what IsName accepts, for people.
const NameForm = "1 to 64 characters of a-z A-Z 0-9 . _ - / @, the first a letter or digit"

// IsName says whether a text can be the name of a queue or a type.
func IsName(s string) bool { return word(s, 64) }

// NamespaceForm is what IsNamespace accepts, for people.
const NamespaceForm = NameForm + `, but not "` + SystemNamespace + `"`

// IsNamespace says whether a text can be the namespace of a caller and its jobs.
func IsNamespace(s string) bool { return IsName(s) && s != SystemNamespace }

// word is the grammar of identifiers that end up in paths, metrics and queue names.
func word(s string, limit int) bool {
	for i, r := range s {
		alnum := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		if !alnum && (i == 0 || !strings.ContainsRune("._-/@", r)) {
			return false
		}
	}
	return s != "" && len(s) <= limit
}

func printable(s string, limit int) bool {
	return s != "" && utf8.RuneCountInString(s) <= limit && utf8.ValidString(s) &&
		strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
}

func byteCount(n int) string { return strconv.Itoa(n) + " bytes" }

// Weight is roughly how many bytes a job has in its parts that can be large.
func (j *Job) Weight() int { return len(j.Payload) + j.Target.weight() + j.hooksWeight() }
