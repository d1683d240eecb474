package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/carillon-run/carillon"
)

const ruleForm = "a rule such as exit=75,after=5m or status=4xx,fatal or max_attempts=10,match=timeout"

// retryRules reads one --retry-rule: conditions and effects, separated by commas. A condition that is given
// several times has several values. match comes last, because a pattern can have commas itself. An empty text
// removes all rules.
func retryRules(text string, before any) (any, error) {
	list, _ := before.([]any)
	if text == "" {
		return []any{}, nil
	}
	rule := map[string]any{}
	for rest := text; rest != ""; {
		var part string
		if part, rest, _ = strings.Cut(rest, ","); strings.HasPrefix(part, "match=") && rest != "" {
			part, rest = part+","+rest, ""
		}
		name, value, _ := strings.Cut(part, "=")
		var number *int
		if n, err := strconv.Atoi(value); err == nil {
			number = &n
		}
		switch {
		case part == "fatal" || part == "retry":
			rule[name] = true
		case name == "exit" && number != nil:
			codes, _ := rule[name].([]int)
			rule[name] = append(codes, *number)
		case name == "max_attempts" && number != nil:
			rule[name] = *number
		case name == "status" && value != "":
			statuses, _ := rule[name].([]string)
			rule[name] = append(statuses, value)
		case (name == "after" || name == "match") && value != "":
			rule[name] = value
		default:
			return nil, fmt.Errorf("%q in %q is not a part of %s", part, text, ruleForm)
		}
	}
	return append(list, rule), nil
}

// retryRuleLines is one line for each rule.
func retryRuleLines(rules *carillon.RetryRules) (lines []string) {
	if rules == nil {
		return nil
	}
	for _, rule := range *rules {
		lines = append(lines, ruleConditions(&rule)+": "+ruleEffects(&rule))
	}
	return lines
}

func ruleConditions(r *carillon.RetryRule) string {
	var parts []string
	if len(r.Exit) > 0 {
		codes := make([]string, len(r.Exit))
		for i, code := range r.Exit {
			codes[i] = strconv.Itoa(code)
		}
		parts = append(parts, "exit code "+strings.Join(codes, ", "))
	}
	if len(r.Status) > 0 {
		parts = append(parts, "HTTP "+strings.Join(r.Status, ", "))
	}
	if r.Match != "" {
		parts = append(parts, "reason matches "+r.Match)
	}
	return strings.Join(parts, " and ")
}

func ruleEffects(r *carillon.RetryRule) string {
	if r.Fatal {
		return "no further attempt"
	}
	text := "tried again"
	if r.After > 0 {
		text += " after " + r.After.String()
	}
	if r.MaxAttempts > 0 {
		text += fmt.Sprintf(", up to %d attempts", r.MaxAttempts)
	}
	return text
}
