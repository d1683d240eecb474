package jobjson

import (
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/carillon-run/carillon"
)

// absent lists the types in which an empty text, or a zero in a field that is left out when it is written,
// means that the field was not given. A field that was given with exactly this value is refused: a variable
// that is not set must not turn a schedule into "now". In all other fields zero has a meaning: a timeout of
// "0s" means no timeout. See also explicitZero.
var absent = map[reflect.Type]bool{
	reflect.TypeFor[carillon.Definition](): true, reflect.TypeFor[carillon.Schedule](): true,
	reflect.TypeFor[carillon.Command](): true, reflect.TypeFor[carillon.HTTP](): true,
	reflect.TypeFor[carillon.Retry](): true, reflect.TypeFor[carillon.Misfire](): true,
	reflect.TypeFor[carillon.Limit]():     true,
	reflect.TypeFor[carillon.RetryRule](): true,
	reflect.TypeFor[carillon.Unique]():    true,
	reflect.TypeFor[carillon.JobFilter](): true, reflect.TypeFor[carillon.GateMatch](): true,
	reflect.TypeFor[carillon.WorkflowNode](): true, reflect.TypeFor[carillon.Edge](): true,
	reflect.TypeFor[carillon.Workflow](): true, reflect.TypeFor[carillon.Wait](): true,
	reflect.TypeFor[carillon.DeadFilter](): true,
	reflect.TypeFor[carillon.HookJob]():    true, reflect.TypeFor[carillon.Webhook](): true,
	reflect.TypeFor[carillon.Sign](): true,
}

// numbers are the fields in which zero is what Go code leaves out, and carillon.Zero is 0. With them, what
// would be right instead of a negative number.
var numbers = map[reflect.Type]map[string]string{
	reflect.TypeFor[carillon.Definition](): {
		"priority": "a number from 0 to 9, higher first", "timeout": "",
		"fair_weight": "a number from 1 to 100",
		"pause_after": "a number from 1 to 1000, or 0 for none",
	},
	reflect.TypeFor[carillon.HookJob](): {
		"priority": "a number from 0 to 9, higher first", "timeout": "",
	},
	reflect.TypeFor[carillon.Retry](): {
		"max_attempts": "a number from 1 to 1000", "max_crashes": "a number from 1 to 1000",
		"jitter": "a number from 0 to 1", "delay": "", "max_delay": "",
	},
	reflect.TypeFor[carillon.Misfire](): {"max": "a number from 1 to 1000", "window": ""},
}

// explicitZero makes a 0 that was given carillon.Zero, so that Admit does not take the default for it.
func (f *fields) explicitZero(name string, v reflect.Value) error {
	want, ok := f.numbers[name]
	if !ok {
		return nil
	}
	zero := reflect.ValueOf(carillon.Zero).Convert(v.Type())
	if v.Equal(zero) {
		return invalid("", strconv.Itoa(carillon.Zero), want)
	}
	if v.IsZero() {
		v.Set(zero)
	}
	return nil
}

// wantInstead says what would be right for some fields that were given empty.
var wantInstead = map[string]string{
	"cron":        "an expression such as 0 3 * * MON-FRI; leave the field out for a job that runs once",
	"every":       "at least 1s; leave the field out for a job that runs once",
	"shell":       "a line for /bin/sh; leave the field out where argv is given",
	"type":        "a word such as email.send; a command or an HTTP request can leave the field out",
	"url":         "an absolute http:// or https:// URL",
	"max_runs":    "a number above 0; leave the field out for no limit",
	"body":        "a template; leave the field out to send the payload",
	"backoff":     "exponential or fixed",
	"concurrency": "a number above 0; leave the field out where only a rate is given",
	"burst":       "a number above 0; leave the field out for the weight",
	"weight":      "a number above 0; leave the field out for 1",
	"policy":      "skip, once or all",
	"fatal":       "true, or leave the field out",
	"retry":       "true, or leave the field out",
	"for":         "1s to 365d; leave the field out to hold the key until the job has ended",
	"secret":      "whsec_ and 24 to 64 bytes in base64, or a text of 24 to 64 bytes",
	"until":       "ended, or leave the field out",
}

// checkGiven refuses a field that was given but is empty.
func (f *fields) checkGiven(name string, v reflect.Value) error {
	// A null in a Time means no time.
	if !f.absent[name] || !v.IsZero() || !f.leftOut[name] || v.Type() == reflect.TypeFor[carillon.Time]() {
		return nil
	}
	given := ""
	if text, ok := v.Interface().(interface{ String() string }); ok && v.Kind() != reflect.String {
		given = text.String()
	} else if v.CanInt() {
		given = "0"
	} else if v.Kind() == reflect.Bool {
		given = "false"
	}
	want := wantInstead[name]
	if f.of == reflect.TypeFor[carillon.JobFilter]() || f.of == reflect.TypeFor[carillon.DeadFilter]() {
		want = "a value that is not empty; leave the field out if it does not matter"
	}
	if want == "" {
		want = "a value that is not empty; leave the field out for its default"
	}
	return invalid("", given, want)
}

// whens are the fields that say when. A schedule has one of them. Errors name them in this order.
var whens = []string{"at", "after", "cron", "every"}

// oneWhen refuses a second one of these fields, even if the first was a zero: after "0s" means now.
func oneWhen(of reflect.Type) func(name string) error {
	var given []string
	return func(name string) error {
		if of != reflect.TypeFor[carillon.Schedule]() || !slices.Contains(whens, name) {
			return nil
		}
		if given = append(given, name); len(given) == 1 {
			return nil
		}
		slices.SortFunc(given, func(a, b string) int {
			return slices.Index(whens, a) - slices.Index(whens, b)
		})
		both := strings.Join(given, " and ")
		return fault(both, "only one of at, after, cron or every; none means now", both+" are given")
	}
}
