package carillon_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/google/go-cmp/cmp"
)

func withRules(rules ...carillon.RetryRule) func(*carillon.Definition) {
	return func(d *carillon.Definition) {
		all := carillon.RetryRules(rules)
		d.Retry.Rules = &all
		d.Retry.Jitter = carillon.Zero
	}
}

func TestTheFirstRuleThatMatchesAFailureDecides(t *testing.T) {
	const minute5 = carillon.Duration(5 * time.Minute)
	job := newJob(t, withRules(
		carillon.RetryRule{Exit: []int{75, 76}, After: minute5},
		carillon.RetryRule{Exit: []int{77}, Match: "^no", Fatal: true},
		carillon.RetryRule{Status: carillon.Statuses{"404", "409-410"}, Retry: true},
		carillon.RetryRule{Status: carillon.Statuses{"4xx"}, Fatal: true},
		carillon.RetryRule{Match: "timeout|timed out", MaxAttempts: 10},
		carillon.RetryRule{Status: carillon.Statuses{"5xx"}, MaxAttempts: 1},
	))
	const retriable, fatal = carillon.OutcomeRetriable, carillon.OutcomeFatal
	type outcome = carillon.Outcome
	for name, c := range map[string]struct {
		outcome  outcome
		failures int32 // before
		state    carillon.State
		wait     time.Duration
		kind     carillon.OutcomeKind
	}{
		"no rule matches":    {outcome{Kind: retriable, Exit: 1}, 0, carillon.StateWaiting, time.Second, retriable},
		"no rule, and fatal": {outcome{Kind: fatal, Exit: 1}, 0, carillon.StateFailed, 0, fatal},
		"an exit code":       {outcome{Kind: retriable, Exit: 76}, 0, carillon.StateWaiting, 5 * time.Minute, retriable},
		"an exit code, second failure": {
			outcome{Kind: retriable, Exit: 75}, 1, carillon.StateWaiting, 5 * time.Minute, retriable,
		},
		"an exit code, the last failure": {
			outcome{Kind: retriable, Exit: 75}, 2, carillon.StateFailed, 0, retriable,
		},
		"an exit code that the target calls fatal": {
			outcome{Kind: fatal, Exit: 75}, 0, carillon.StateWaiting, 5 * time.Minute, retriable,
		},
		"the target asks for a longer pause": {
			outcome{Kind: retriable, Exit: 75, RetryAfter: time.Hour},
			0, carillon.StateWaiting, time.Hour,
			retriable,
		},
		"both conditions": {
			outcome{Kind: retriable, Exit: 77, Reason: "no room"}, 0, carillon.StateFailed, 0, fatal,
		},
		"one of two conditions": {
			outcome{Kind: retriable, Exit: 77, Reason: "there is no room"},
			0, carillon.StateWaiting,
			time.Second, retriable,
		},
		"a status that is fatal without the rule": {
			outcome{Kind: fatal, Status: 410}, 0, carillon.StateWaiting, time.Second, retriable,
		},
		"a class after it":        {outcome{Kind: retriable, Status: 429}, 0, carillon.StateFailed, 0, fatal},
		"more attempts":           {outcome{Kind: retriable, Reason: "it timed out"}, 8, carillon.StateWaiting, 256 * time.Second, retriable},
		"more attempts, the last": {outcome{Kind: retriable, Reason: "it timed out"}, 9, carillon.StateFailed, 0, retriable},
		"fewer attempts":          {outcome{Kind: retriable, Status: 503}, 0, carillon.StateFailed, 0, retriable},
		"a loss is no failure": {
			outcome{Kind: carillon.OutcomeLost, Reason: "timeout", Exit: 77},
			0, carillon.StateWaiting, 0,
			carillon.OutcomeLost,
		},
	} {
		run := planned(job, minute(1))
		run.Failures = c.failures
		now := minute(2)
		got := run.Claim("worker_a", minute(1)).Finish(job, c.outcome, now, 0)
		wake := carillon.Time(0)
		switch {
		case c.wait > 0:
			wake = now.Add(c.wait)
		case c.state == carillon.StateWaiting:
			wake = run.ID.Due
		}
		if got.State != c.state || got.Wake != wake || got.Output.Attempt.Outcome != c.kind ||
			got.Reason != c.outcome.Reason {
			t.Errorf("%s: %s, next %s, recorded as %s (%s)", name, got.State, got.Wake,
				got.Output.Attempt.Outcome, got.Reason)
		}
	}
}

func TestTheDelayOfARuleHasTheJitterOfTheJob(t *testing.T) {
	job := newJob(t, func(d *carillon.Definition) {
		d.Retry.Rules = &carillon.RetryRules{{Exit: []int{1}, After: carillon.Duration(time.Minute)}}
	})
	run := claimed(planned(job, minute(1)))
	got := run.Finish(job, carillon.Outcome{Kind: carillon.OutcomeRetriable, Exit: 1}, minute(2), 0.5)
	if want := minute(2).Add(66 * time.Second); got.Wake != want {
		t.Errorf("next %s, want %s", got.Wake, want)
	}
}

func TestRulesThatAreRefused(t *testing.T) {
	fine := carillon.RetryRule{Match: "x", Fatal: true}
	for want, rules := range map[string]carillon.RetryRules{
		`retry.rules[1]: it has no condition: want exit, status or match`: {fine, {Fatal: true}},
		`retry.rules[0]: it has no effect: want fatal, retry, after or max_attempts`: {
			{Exit: []int{1}},
		},
		`retry.rules[0].fatal: a run that has failed for good is not tried again: ` +
			`want fatal alone, or retry, after and max_attempts without it`: {
			{Exit: []int{1}, Fatal: true, MaxAttempts: 2},
		},
		`retry.rules[0].status: no failure has both an exit code and a status: want exit or status`: {
			{Exit: []int{1}, Status: carillon.Statuses{"404"}, Fatal: true},
		},
		`retry.rules[0].exit[1]: "0" is not valid: want an exit code from 1 to 255`: {
			{Exit: []int{1, 0}, Fatal: true},
		},
		`retry.rules[0].exit: "101 codes" is not valid: want at most 100`: {
			{Exit: make([]int, 101), Fatal: true},
		},
		`retry.rules[2].match: missing closing ): ` + "`(`" + `: want a regular expression in RE2 syntax`: {
			fine, fine, {Match: "(", Fatal: true},
		},
		`retry.rules[0].max_attempts: "1001" is not valid: want a number from 1 to 1000`: {
			{Match: "x", MaxAttempts: 1001},
		},
		`retry.rules[0].after: "366d" is not valid: want 1ms to 365d, in whole milliseconds`: {
			{Match: "x", After: carillon.Duration(366 * 24 * time.Hour)},
		},
		`retry.rules: "33 rules" is not valid: want at most 32`: make(carillon.RetryRules, 33),
	} {
		def := carillon.Definition{Target: carillon.Target{Command: &carillon.Command{Shell: "true"}}}
		def.Retry.Rules = &rules
		if err := def.Admit(epoch); !errors.Is(err, carillon.ErrInvalid) || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
	for _, status := range []string{
		"", "40", "4040", "0xx", "6xx", "xxx", "404-", "-404", "500-400", "99-200", "4xx-5xx", "+40", "600",
	} {
		def := carillon.Definition{Target: carillon.Target{Command: &carillon.Command{Shell: "true"}}}
		def.Retry.Rules = &carillon.RetryRules{{Status: carillon.Statuses{status}, Fatal: true}}
		var fault *carillon.FieldError
		if err := def.Admit(epoch); !errors.As(err, &fault) || fault.Field != "retry.rules[0].status" {
			t.Errorf("%q: %v", status, err)
		}
	}
	def := carillon.Definition{Target: carillon.Target{Command: &carillon.Command{Shell: "true"}}}
	def.Retry.Rules = &carillon.RetryRules{{Match: strings.Repeat("ü", 200), Fatal: true}}
	if err := def.Admit(epoch); err != nil {
		t.Errorf("200 characters: %v", err)
	}
	(*def.Retry.Rules)[0].Match += "x"
	if err := def.Admit(epoch); err == nil {
		t.Error("201 characters are admitted")
	}
}

func TestRulesAreComparedByWhatTheySay(t *testing.T) {
	rules := func(edit func(*carillon.RetryRule)) carillon.Retry {
		rule := carillon.RetryRule{
			Exit: []int{1}, Status: carillon.Statuses{"4xx"}, Match: "x", After: 1, MaxAttempts: 1,
		}
		edit(&rule)
		return carillon.Retry{Rules: &carillon.RetryRules{rule}}
	}
	same := rules(func(*carillon.RetryRule) {})
	if !same.Equal(rules(func(*carillon.RetryRule) {})) ||
		!(carillon.Retry{}).Equal(carillon.Retry{Rules: &carillon.RetryRules{}}) {
		t.Error("equal rules differ")
	}
	for i, edit := range []func(*carillon.RetryRule){
		func(r *carillon.RetryRule) { r.Exit = []int{2} },
		func(r *carillon.RetryRule) { r.Status = carillon.Statuses{"5xx"} },
		func(r *carillon.RetryRule) { r.Match = "y" },
		func(r *carillon.RetryRule) { r.Fatal = true },
		func(r *carillon.RetryRule) { r.Retry = true },
		func(r *carillon.RetryRule) { r.After = 2 },
		func(r *carillon.RetryRule) { r.MaxAttempts = 2 },
	} {
		if same.Equal(rules(edit)) {
			t.Errorf("change %d is not seen", i)
		}
	}
	if same.Equal(carillon.Retry{}) || (carillon.Retry{MaxAttempts: 1}).Equal(carillon.Retry{}) {
		t.Error("other retries are equal")
	}
}

func TestAnEditCanRemoveAllRules(t *testing.T) {
	def := newJob(t, withRules(carillon.RetryRule{Match: "x", Fatal: true})).Definition
	edited := def
	edited.Retry.Rules = &carillon.RetryRules{}
	if err := edited.AdmitEdit(&def, minute(1)); err != nil || edited.Retry.Rules != nil {
		t.Errorf("%v, %v", edited.Retry.Rules, err)
	}
}

func TestStatusesAreReadFromATextANumberOrAList(t *testing.T) {
	for given, want := range map[string]carillon.Statuses{
		`"4xx"`: {"4xx"}, `404`: {"404"}, `["404",500,"500-599"]`: {"404", "500", "500-599"},
	} {
		var got carillon.Statuses
		if err := got.UnmarshalJSON([]byte(given)); err != nil || !cmp.Equal(got, want) {
			t.Errorf("%s: %v, %v", given, got, err)
		}
	}
	for _, given := range []string{`{}`, `true`, `null`, `[null]`, `4.5`, `[["404"]]`, `-404`} {
		var got carillon.Statuses
		if err := got.UnmarshalJSON([]byte(given)); err == nil {
			t.Errorf("%s is read as %v", given, got)
		}
	}
}

func TestAPatternThatWouldTakeSecondsToMatchIsRefused(t *testing.T) {
	def := carillon.Definition{Type: "test", Target: carillon.Target{Handler: &carillon.Handler{}}}
	match := "(?:" + strings.Repeat(".?", 85) + "){1000}x"
	def.Retry.Rules = &carillon.RetryRules{{Match: match, Fatal: true}}
	err := def.Admit(minute(1))
	if err == nil || !strings.HasPrefix(err.Error(), "retry.rules[0].match: it has ") {
		t.Errorf("%v", err)
	}
}
