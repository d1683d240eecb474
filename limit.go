package carillon

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

const (
	maxLimits      = 8   // of one job
	maxLimitKey    = 100 // characters
	maxConcurrency = 1_000_000
)

// Limit bounds how many runs with the same key are performed at the same time, how many begin in a time, or
// both. Runs of different jobs that name the same key share it.
type Limit struct {
	Key string `json:"key"`
	// Concurrency is how many slots the key has; 0: this limit does not count slots. With 1, runs of the key
	// start in the order of their due times.
	Concurrency int `json:"concurrency,omitzero"`
	// Rate bounds the starts, of retries too. Default no bound.
	Rate Rate `json:"rate,omitzero"`
	// Burst is how many starts the rate allows at once after a pause. Default Weight.
	Burst int `json:"burst,omitzero"`
	// Weight is how many slots one run takes, and as how many starts it counts. Default 1.
	Weight int `json:"weight,omitzero"`

	// Of says what the key names; empty: it is a key that jobs name. The other limits are set by operators.
	Of LimitOf `json:"-"`
}

// LimitOf is what an operator's limit is for.
type LimitOf string

const (
	LimitQueue     LimitOf = "queue"
	LimitType      LimitOf = "type"
	LimitNamespace LimitOf = "namespace"
)

// Rate is a number of starts in a second, a minute or an hour, written as in "10/s".
type Rate struct {
	Starts int
	Per    time.Duration
}

var ratePeriods = []struct {
	name string
	per  time.Duration
}{{"s", time.Second}, {"m", time.Minute}, {"h", time.Hour}}

const (
	// RateForm is what ParseRate accepts, for people.
	RateForm  = `a number of starts in a second, a minute or an hour, such as "10/s", "100/m" or "5000/h"`
	maxStarts = 1_000_000
)

func (r Rate) String() string {
	for _, p := range ratePeriods {
		if p.per == r.Per {
			return strconv.Itoa(r.Starts) + "/" + p.name
		}
	}
	return ""
}

func (r Rate) MarshalJSON() ([]byte, error) { return []byte(`"` + r.String() + `"`), nil }

func (r *Rate) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return &FieldError{Given: string(b), Want: RateForm}
	}
	parsed, err := ParseRate(s)
	*r = parsed
	return err
}

// ParseRate reads a rate as it is written.
func ParseRate(s string) (Rate, error) {
	number, period, _ := strings.Cut(s, "/")
	for _, p := range ratePeriods {
		if n, err := strconv.Atoi(number); p.name == period && err == nil && n >= 1 && n <= maxStarts &&
			strconv.Itoa(n) == number {
			return Rate{n, p.per}, nil
		}
	}
	return Rate{}, &FieldError{Given: cut(s), Want: RateForm}
}

// interval is the time between two starts, rounded up.
func (r Rate) interval() time.Duration {
	return (r.Per + time.Duration(r.Starts) - 1) / time.Duration(r.Starts)
}

// admitLimits checks the limits of a job, and fills in their defaults.
func (d *Definition) admitLimits() *FieldError {
	if len(d.Limits) == 0 {
		d.Limits = nil
		return nil
	}
	if len(d.Limits) > maxLimits {
		return invalid("limits", strconv.Itoa(len(d.Limits))+" limits", "at most %d", maxLimits)
	}
	limits, seen := make([]Limit, len(d.Limits)), map[string]bool{}
	copy(limits, d.Limits) // the caller's list stays as it is
	for i := range limits {
		l := &limits[i]
		field := "limits[" + strconv.Itoa(i) + "]"
		if !word(l.Key, maxLimitKey) {
			return invalid(field+".key", cut(l.Key),
				"1 to %d characters of a-z A-Z 0-9 . _ - / @, the first a letter or digit", maxLimitKey)
		}
		if seen[l.Key] {
			return invalid(field+".key", l.Key, "a key that no other limit of the job has")
		}
		seen[l.Key] = true
		if err := l.Admit(field); err != nil {
			return err
		}
	}
	d.Limits = limits
	return nil
}

// Admit checks what a limit bounds, and fills in its defaults. field is what the caller knows it as.
func (l *Limit) Admit(field string) *FieldError {
	if l.Weight == 0 {
		l.Weight = 1
	}
	if l.Burst == 0 && l.Rate.Starts > 0 {
		l.Burst = l.Weight
	}
	switch {
	case l.Concurrency < 0 || l.Concurrency > maxConcurrency:
		return invalid(field+".concurrency", l.Concurrency, "a number from 1 to %d", maxConcurrency)
	case l.Rate != (Rate{}) && (l.Rate.String() == "" || l.Rate.Starts < 1 || l.Rate.Starts > maxStarts):
		return invalid(field+".rate", fmt.Sprintf("%d per %s", l.Rate.Starts, l.Rate.Per), RateForm)
	case l.Concurrency == 0 && l.Rate.Starts == 0:
		return invalid(field, "", "concurrency, rate or both").because("it bounds nothing")
	case l.Weight < 1 || l.Weight > maxConcurrency:
		return invalid(field+".weight", l.Weight, "a number from 1 to %d", maxConcurrency)
	case l.Concurrency > 0 && l.Weight > l.Concurrency:
		return invalid(field+".weight", l.Weight, "at most the concurrency, %d", l.Concurrency).
			because("no run could ever start")
	case l.Burst < 0 || l.Burst > maxStarts:
		return invalid(field+".burst", l.Burst, "a number from 1 to %d", maxStarts)
	case l.Burst > 0 && l.Rate.Starts == 0:
		return invalid(field+".burst", l.Burst, "a rate beside it").because("it has no rate")
	case l.Rate.Starts > 0 && l.Weight > l.Burst:
		return invalid(field+".burst", l.Burst, "at least the weight, %d", l.Weight).
			because("no run could ever start")
	}
	return nil
}

// cut shortens what a caller gave, for an error message.
func cut(s string) string {
	if len(s) > 60 {
		return s[:60] + "…"
	}
	return s
}

// Hold is what a run waits for that the limit has no room for: the key of the limit's guard. Run.Slots has it
// too, without the kind of the guard.
func (l *Limit) Hold() string {
	return string(GuardLimit) + "/" + cmp.Or(string(l.Of), "key") + "/" + l.Key
}

// LimitHold returns the words for a hold by a limit, as in "limit customer-42" or "limit of queue mail";
// false for other holds.
func LimitHold(hold string) (words string, is bool) {
	of, key, is := strings.Cut(strings.TrimPrefix(hold, string(GuardLimit)+"/"), "/")
	if !is || !strings.HasPrefix(hold, string(GuardLimit)+"/") {
		return "", false
	}
	if of == "key" {
		return "limit " + key, true
	}
	return "limit of " + of + " " + key, true
}

// line is the hold that a job's runs have from the beginning, so that they start in the order of their due
// times: the first limit of the job with a single slot. Empty: the job has none.
func (j *Job) line() string {
	for i := range j.Limits {
		if j.Limits[i].Concurrency == 1 {
			return j.Limits[i].Hold()
		}
	}
	return ""
}
