package carillon

import (
	"encoding/json"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// RetryRules say what follows a failure, by its class. The first rule that matches a failure decides; a
// failure that no rule matches is retried as the rest of Retry says.
type RetryRules []RetryRule

// RetryRule has conditions and effects, at least one of each. All its conditions must be met.
type RetryRule struct {
	Exit   []int    `json:"exit,omitzero"`   // exit codes of a command, 1 to 255
	Status Statuses `json:"status,omitzero"` // that an http target answered
	Match  string   `json:"match,omitzero"`  // RE2 syntax; matches a part of the reason

	// Fatal fails the run for good. Without it the run is tried again, even if the target called the failure
	// fatal.
	Fatal bool `json:"fatal,omitzero"`
	// Retry tries the run again as the rest of Retry says. It is the effect of a rule that has no other one.
	Retry bool     `json:"retry,omitzero"`
	After Duration `json:"after,omitzero"` // the delay before the next attempt, in place of the backoff
	// MaxAttempts is used in place of Retry.MaxAttempts after such a failure.
	MaxAttempts int32 `json:"max_attempts,omitzero"`
}

const (
	maxRetryRules = 32
	maxConditions = 100 // exit codes or statuses of a rule
	maxMatch      = 200 // characters
)

// Statuses are HTTP statuses: "404", "4xx" or "500-599". In JSON a list, or one of them.
type Statuses []string

const statusForm = `a status, a class or a range, such as "404", "4xx" or "500-599", or a list of them`

// UnmarshalJSON reads a text or a number, or a list of these.
func (s *Statuses) UnmarshalJSON(b []byte) error {
	var items []json.RawMessage
	if err := json.Unmarshal(b, &items); err != nil || items == nil {
		items = []json.RawMessage{b}
	}
	*s = nil
	for _, item := range items {
		text := string(item)
		if !digits(text) {
			var quoted *string
			if err := json.Unmarshal(item, &quoted); err != nil || quoted == nil {
				return &FieldError{Given: cut(text), Want: statusForm}
			}
			text = *quoted
		}
		*s = append(*s, text)
	}
	return nil
}

func digits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// statusRange is what one of Statuses stands for.
func statusRange(text string) (from, to int, ok bool) {
	first, last, isRange := strings.Cut(text, "-")
	if class, isClass := strings.CutSuffix(text, "xx"); isClass {
		first, last, isRange = class+"00", class+"99", true
	}
	if !isRange {
		last = first
	}
	number := func(s string) int {
		n, err := strconv.Atoi(s)
		if err != nil || len(s) != 3 || !digits(s) {
			return 0
		}
		return n
	}
	from, to = number(first), number(last)
	return from, to, from >= 100 && from <= to && to <= 599
}

func (s Statuses) has(status uint16) bool {
	return slices.ContainsFunc(s, func(text string) bool {
		from, to, ok := statusRange(text)
		return ok && from <= int(status) && int(status) <= to
	})
}

// of returns the first rule that matches a failure; nil: none.
func (r *RetryRules) of(o *Outcome) *RetryRule {
	if r == nil || o.Kind != OutcomeRetriable && o.Kind != OutcomeFatal {
		return nil
	}
	for i := range *r {
		if rule := &(*r)[i]; rule.matches(o) {
			return rule
		}
	}
	return nil
}

func (r *RetryRule) matches(o *Outcome) bool {
	switch {
	case len(r.Exit) > 0 && (o.Exit == 0 || !slices.Contains(r.Exit, int(o.Exit))):
		return false
	case len(r.Status) > 0 && !r.Status.has(o.Status):
		return false
	case r.Match != "":
		pattern, err := patternOf(r.Match)
		return err == nil && pattern.MatchString(o.Reason)
	}
	return true
}

// kind is what the rule makes of a failure.
func (r *RetryRule) kind() OutcomeKind {
	if r.Fatal {
		return OutcomeFatal
	}
	return OutcomeRetriable
}

// equal compares rules; nil and no rules are the same.
func (r *RetryRules) equal(other *RetryRules) bool {
	return slices.EqualFunc(r.list(), other.list(), func(a, b RetryRule) bool {
		return slices.Equal(a.Exit, b.Exit) && slices.Equal(a.Status, b.Status) && a.Match == b.Match &&
			a.Fatal == b.Fatal && a.Retry == b.Retry && a.After == b.After && a.MaxAttempts == b.MaxAttempts
	})
}

func (r *RetryRules) list() RetryRules {
	if r == nil {
		return nil
	}
	return *r
}

// Clone returns rules that share nothing with these.
func (r *RetryRules) Clone() *RetryRules {
	if r == nil {
		return nil
	}
	rules := slices.Clone(*r)
	for i := range rules {
		rules[i].Exit, rules[i].Status = slices.Clone(rules[i].Exit), slices.Clone(rules[i].Status)
	}
	return &rules
}

// admit checks the rules.
func (r *RetryRules) admit() *FieldError {
	if n := len(r.list()); n > maxRetryRules {
		return invalid("rules", strconv.Itoa(n)+" rules", "at most %d", maxRetryRules)
	}
	for i := range r.list() {
		if err := (*r)[i].admit(); err != nil {
			return err.In("rules[" + strconv.Itoa(i) + "]")
		}
	}
	return nil
}

func (r *RetryRule) admit() *FieldError {
	const year = Duration(365 * 24 * time.Hour)
	again := r.Retry || r.After != 0 || r.MaxAttempts != 0
	switch {
	case len(r.Exit) == 0 && len(r.Status) == 0 && r.Match == "":
		return invalid("", "", "exit, status or match").because("it has no condition")
	case !r.Fatal && !again:
		return invalid("", "", "fatal, retry, after or max_attempts").because("it has no effect")
	case r.Fatal && again:
		return invalid("fatal", true, "fatal alone, or retry, after and max_attempts without it").
			because("a run that has failed for good is not tried again")
	case len(r.Exit) > 0 && len(r.Status) > 0:
		return invalid("status", r.Status, "exit or status").
			because("no failure has both an exit code and a status")
	case r.After != 0 && (r.After < Duration(time.Millisecond) || r.After > year ||
		r.After%Duration(time.Millisecond) != 0):
		return invalid("after", r.After, "1ms to 365d, in whole milliseconds")
	case r.MaxAttempts < 0 || r.MaxAttempts > 1000:
		return invalid("max_attempts", r.MaxAttempts, "a number from 1 to 1000")
	case len(r.Exit) > maxConditions:
		return invalid("exit", strconv.Itoa(len(r.Exit))+" codes", "at most %d", maxConditions)
	case len(r.Status) > maxConditions:
		return invalid("status", strconv.Itoa(len(r.Status))+" statuses", "at most %d", maxConditions)
	case utf8.RuneCountInString(r.Match) > maxMatch:
		return invalid("match", cut(r.Match), "at most %d characters", maxMatch)
	}
	for i, code := range r.Exit {
		if code < 1 || code > 255 {
			return invalid("exit["+strconv.Itoa(i)+"]", code, "an exit code from 1 to 255")
		}
	}
	for _, status := range r.Status {
		if _, _, ok := statusRange(status); !ok {
			return invalid("status", cut(status), statusForm)
		}
	}
	if r.Match != "" {
		if _, err := patternOf(r.Match); err != nil {
			return invalid("match", r.Match, "a regular expression in RE2 syntax").
				because("%s", strings.TrimPrefix(err.Error(), "error parsing regexp: "))
		}
	}
	return nil
}

// patterns keeps compiled patterns: a job that fails again and again matches the same few. When it is
// full, it begins anew.
var patterns = struct {
	sync.Mutex
	compiled map[string]*regexp.Regexp
}{compiled: map[string]*regexp.Regexp{}}

const maxPatterns = 1000

// maxProgram bounds the steps of a compiled pattern. A match takes time by the steps and the text, and the
// dispatcher waits for it: a short pattern such as (.?.?.?){1000} has thousands.
const maxProgram = 1000

func patternOf(match string) (*regexp.Regexp, error) {
	patterns.Lock()
	pattern := patterns.compiled[match]
	patterns.Unlock()
	if pattern != nil {
		return pattern, nil
	}
	parsed, err := syntax.Parse(match, syntax.Perl)
	if err != nil {
		return nil, err
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return nil, err
	}
	if len(program.Inst) > maxProgram {
		return nil, fmt.Errorf("it has %d steps: at most %d", len(program.Inst), maxProgram)
	}
	if pattern, err = regexp.Compile(match); err != nil {
		return nil, err
	}
	patterns.Lock()
	defer patterns.Unlock()
	if len(patterns.compiled) >= maxPatterns {
		clear(patterns.compiled)
	}
	patterns.compiled[match] = pattern
	return pattern, nil
}
