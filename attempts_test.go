package carillon_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestTheEndOfAnAttemptRecordsItUnlessItWasTheFirstAndSucceeded(t *testing.T) {
	job := newJob(t, nil)
	for kind, name := range kinds {
		for _, number := range []int32{1, 2} {
			run := planned(job, minute(1))
			run.Attempt = number - 1
			run = run.Claim("worker_a", minute(1))
			given := &carillon.Output{Result: []byte("r")}
			got := run.Finish(job, carillon.Outcome{
				Kind: kind, Reason: "so", Started: minute(1) + 5, Exit: 75, Status: 503, Output: given,
			}, minute(2), 0)
			want := &carillon.Output{Result: []byte("r"), Attempt: &carillon.Attempt{
				Run: run.ID, Number: number, Worker: "worker_a", Claimed: minute(1), Started: minute(1) + 5,
				Ended: minute(2), Outcome: kind, Reason: "so", Exit: 75, Status: 503,
			}}
			if number == 1 && kind == carillon.OutcomeSuccess {
				want.Attempt = nil
			}
			if diff := cmp.Diff(want, got.Output); diff != "" {
				t.Errorf("%s of attempt %d: %s", name, number, diff)
			}
			if given.Attempt != nil {
				t.Error("the caller's output has changed")
			}
		}
	}
}

func TestAFirstAttemptThatSucceedsAllocatesNothing(t *testing.T) {
	job := newJob(t, nil)
	run := claimed(planned(job, minute(1)))
	run.About = &carillon.About{Name: job.Name, Type: job.Type, Owner: job.Owner}
	var ended carillon.Run
	if n := testing.AllocsPerRun(100, func() {
		ended = run.Finish(job, carillon.Outcome{Kind: carillon.OutcomeSuccess}, minute(2), 0)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if ended.Output != nil {
		t.Errorf("%+v", ended.Output)
	}
}

func TestTheAttemptsOfARun(t *testing.T) {
	job := newJob(t, nil)
	record := func(number int32, claimed carillon.Time) carillon.Attempt {
		return carillon.Attempt{
			Run: planned(job, minute(1)).ID, Number: number, Worker: "worker_a", Claimed: claimed,
			Ended: claimed + 10, Outcome: carillon.OutcomeRetriable, Reason: "so",
		}
	}
	held := func(number int32) carillon.Run {
		run := planned(job, minute(1))
		run.Attempt = number - 1
		return run.Claim("worker_b", minute(5)).Begin(minute(5)+1, minute(6))
	}
	present := carillon.Attempt{
		Run: planned(job, minute(1)).ID, Worker: "worker_b", Claimed: minute(5), Started: minute(5) + 1,
	}
	with := func(number int32, ended carillon.Time, outcome carillon.OutcomeKind) carillon.Attempt {
		a := present
		a.Number, a.Ended, a.Outcome = number, ended, outcome
		return a
	}
	succeeded := func(number int32) carillon.Run {
		return held(number).Finish(job, carillon.Outcome{Kind: carillon.OutcomeSuccess}, minute(7), 0)
	}
	lost := held(2).Finish(job, carillon.Outcome{Kind: carillon.OutcomeLost}, minute(7), 0)
	type attempts = []carillon.Attempt
	for name, c := range map[string]struct {
		run     carillon.Run
		records attempts
		after   int32
		more    bool
		want    attempts
	}{
		"not begun":                   {run: planned(job, minute(1))},
		"the first goes on":           {run: held(1), want: attempts{with(1, 0, 0)}},
		"the first succeeded":         {run: succeeded(1), want: attempts{with(1, minute(7), 1)}},
		"the first succeeded, page 2": {run: succeeded(1), after: 1},
		"the second goes on": {
			run: held(2), records: attempts{record(1, minute(2))},
			want: attempts{record(1, minute(2)), with(2, 0, 0)},
		},
		"the second goes on, and the store has more records": {
			run: held(3), records: attempts{record(1, minute(2))}, more: true,
			want: attempts{record(1, minute(2))},
		},
		"the second has ended meanwhile": {
			run: held(2), records: attempts{record(1, minute(2)), record(2, minute(5))},
			want: attempts{record(1, minute(2)), record(2, minute(5))},
		},
		"the third has ended meanwhile": {
			run: held(2), records: attempts{record(1, minute(2)), record(2, minute(5)), record(3, minute(8))},
			want: attempts{record(1, minute(2)), record(2, minute(5))},
		},
		"the second was lost": {
			run: lost, records: attempts{record(1, minute(2)), *lost.Output.Attempt},
			want: attempts{record(1, minute(2)), *lost.Output.Attempt},
		},
		"an earlier run had the same name": {
			run: held(1), records: attempts{record(1, minute(2)), record(2, minute(3))},
			want: attempts{with(1, 0, 0)},
		},
		"a node without records ended it": {run: succeeded(3), want: attempts{with(3, minute(7), 1)}},
	} {
		got := c.run.Attempts(c.records, c.after, c.more)
		if diff := cmp.Diff(c.want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestAnAttemptIsReadFromItsJSON(t *testing.T) {
	a := carillon.Attempt{
		Run: planned(newJob(t, nil), minute(1)).ID, Number: 2, Worker: "worker_a", Claimed: minute(1),
		Ended: minute(1).Add(time.Second), Outcome: carillon.OutcomeCrashed, Reason: "so", Exit: 1,
		Status: 404,
	}
	text, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"run_id":"run_00000000004k701mcc5tek0","attempt":2,"worker_id":"worker_a",` +
		`"claimed_at":"2027-01-15T08:01:00.000Z","started_at":null,"ended_at":"2027-01-15T08:01:01.000Z",` +
		`"outcome":"crashed","reason":"so","exit":1,"status":404}`
	if string(text) != want {
		t.Errorf("%s", text)
	}
	var got carillon.Attempt
	if err := json.Unmarshal(text, &got); err != nil || got != a {
		t.Errorf("%+v, %v", got, err)
	}
	if err := json.Unmarshal([]byte(`{"outcome":"fine"}`), &got); err == nil {
		t.Error("an outcome that does not exist is read")
	}
}
