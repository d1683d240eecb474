package carillon

import (
	"errors"
	"testing"
)

func TestACursorIsReadBackByTheQueryThatGaveItAndByNoOther(t *testing.T) {
	queries := map[string]RunQuery{
		"all": {}, "job": {Job: 7}, "dead": {Dead: true}, "dead of a job": {Dead: true, Job: 7},
	}
	for _, c := range []struct {
		pos RunPos
		of  []string
	}{
		{RunPos{Part: RunPartUnfinished, Due: 1_800_000_000_000, Job: 42}, []string{"all"}},
		{RunPos{Part: RunPartEnded, Place: 9}, []string{"all"}},
		{RunPos{Part: RunPartJob, Due: Never, Place: Unended}, []string{"job"}},
		{RunPos{Part: RunPartJob, Due: 1, Place: 2}, []string{"job"}},
		{RunPos{Part: RunPartDead, Place: 3}, []string{"dead", "dead of a job"}},
	} {
		for name, q := range queries {
			q.After = c.pos.String()
			got, err := q.Start()
			var wanted bool
			for _, of := range c.of {
				wanted = wanted || of == name
			}
			var field *FieldError
			if wanted && (got != c.pos || err != nil) ||
				!wanted && (!errors.As(err, &field) || field.Field != "cursor") {
				t.Errorf("%q for %s: %+v, %v", q.After, name, got, err)
			}
		}
	}
}

func FuzzCursor(f *testing.F) {
	f.Add("u00001mcc5rrw907fjcq7h4041h")
	f.Add("e0000000007m1d")
	f.Fuzz(func(t *testing.T, s string) {
		for _, q := range []RunQuery{{After: s}, {After: s, Job: 1}, {After: s, Dead: true}} {
			if pos, err := q.Start(); err == nil && s != "" && pos.String() != s {
				t.Errorf("%q is read as %+v, which is %q", s, pos, pos.String())
			}
		}
	})
}

func TestAJobIsSummedUpByItsLatestRunThatBegan(t *testing.T) {
	at := func(due Time, state State, attempt int32) Run {
		return Run{ID: RunID{1, due}, State: state, Attempt: attempt}
	}
	ended := func(due Time, state State) *Run { r := at(due, state, 1); return &r }
	for name, c := range map[string]struct {
		unfinished []Run
		ended      *Run
		want       LatestState
	}{
		"nothing has begun": {[]Run{at(5, StateWaiting, 0)}, nil, LatestPending},
		"nothing is left":   {nil, nil, LatestPending},
		"one is held": {
			[]Run{at(5, StateWaiting, 0), at(3, StateClaimed, 1)}, ended(4, StateFailed), LatestRunning,
		},
		"one runs": {[]Run{at(3, StateRunning, 1)}, nil, LatestRunning},
		"one waits for another attempt": {
			[]Run{at(5, StateWaiting, 1)}, ended(4, StateFailed), LatestPending,
		},
		"an older one waits for another": {
			[]Run{at(3, StateWaiting, 1)}, ended(4, StateSucceeded), LatestSucceeded,
		},
		"the last failed": {
			[]Run{at(5, StateWaiting, 0)}, ended(4, StateFailed), LatestFailed,
		},
		"the last was canceled when it ran": {nil, ended(4, StateCanceled), LatestFailed},
		"the last succeeded, the next waits": {
			[]Run{at(5, StateWaiting, 0)}, ended(4, StateSucceeded), LatestSucceeded,
		},
	} {
		if got := LatestOf(c.unfinished, c.ended); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
