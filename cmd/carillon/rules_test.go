package main

import (
	"slices"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
)

func TestAJobShowsItsRetryRules(t *testing.T) {
	got := retryRuleLines(&carillon.RetryRules{
		{Exit: []int{75, 76}, After: carillon.Duration(5 * time.Minute)},
		{Status: carillon.Statuses{"4xx"}, Match: "no", Fatal: true},
		{Match: "timeout", MaxAttempts: 10},
	})
	want := []string{
		"exit code 75, 76: tried again after 5m",
		"HTTP 4xx and reason matches no: no further attempt",
		"reason matches timeout: tried again, up to 10 attempts",
	}
	if !slices.Equal(got, want) || retryRuleLines(nil) != nil {
		t.Errorf("%q", got)
	}
}

func TestARetryRuleThatIsNoneIsRefused(t *testing.T) {
	for _, text := range []string{
		"75", "exit", "exit=", "exit=a", "status=", "match=", "after", "fatal=true", "max_attempts=x", ",",
		"exit=1,,fatal", "unknown=1",
	} {
		if rule, err := retryRules(text, nil); err == nil {
			t.Errorf("%q is read as %v", text, rule)
		}
	}
	if none, err := retryRules("", nil); err != nil || len(none.([]any)) != 0 {
		t.Errorf("an empty text is %v, %v", none, err)
	}
}
