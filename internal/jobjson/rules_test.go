package jobjson_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/jobjson"
)

func TestRetryRulesAreReadAsPeopleWriteThem(t *testing.T) {
	var got carillon.Retry
	err := jobjson.Decode([]byte(`{"rules":[{"exit":[75],"after":"5m"},{"status":"4xx","fatal":true},
		{"status":[404,"500-599"],"retry":true},{"match":"timeout","max_attempts":10}]}`), &got)
	want := carillon.Retry{Rules: &carillon.RetryRules{
		{Exit: []int{75}, After: carillon.Duration(5 * time.Minute)},
		{Status: carillon.Statuses{"4xx"}, Fatal: true},
		{Status: carillon.Statuses{"404", "500-599"}, Retry: true},
		{Match: "timeout", MaxAttempts: 10},
	}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
	// An edit replaces the list, and leaves the rules that others have as they are.
	was := *got.Rules
	if err := jobjson.Decode([]byte(`{"rules":[]}`), &got); err != nil || len(*got.Rules) != 0 || len(was) != 4 {
		t.Errorf("%v, %v, %v", err, got.Rules, was)
	}
}

func TestRetryRulesThatCannotBeRead(t *testing.T) {
	for given, field := range map[string]string{
		`{"rules":[{"match":"x","fatal":true},{"exits":[75]}]}`: "rules[1].exits",
		`{"rules":[{"match":"","fatal":true}]}`:                 "rules[0].match",
		`{"rules":[{"match":"x","fatal":false}]}`:               "rules[0].fatal",
		`{"rules":[{"match":"x","after":"0s"}]}`:                "rules[0].after",
		`{"rules":[{"match":"x","max_attempts":0}]}`:            "rules[0].max_attempts",
		`{"rules":[{"exit":[],"fatal":true}]}`:                  "rules[0].exit",
		`{"rules":[{"exit":75,"fatal":true}]}`:                  "rules[0].exit",
		`{"rules":[{"status":true,"fatal":true}]}`:              "rules[0].status",
		`{"rules":[{"status":[],"fatal":true}]}`:                "rules[0].status",
		`{"rules":{}}`:                                          "rules",
		`{"rules":null}`:                                        "rules",
	} {
		var retry carillon.Retry
		var fault *carillon.FieldError
		if err := jobjson.Decode([]byte(given), &retry); !errors.As(err, &fault) || fault.Field != field {
			t.Errorf("%s: %v", given, err)
		}
	}
}
