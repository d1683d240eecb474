package carillon

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestGateAdmit(t *testing.T) {
	const now = Time(1_000_000)
	for _, test := range []struct {
		name  string
		gate  Gate
		field string // of the error; "": it is admitted
	}{
		{"a type", Gate{Match: GateMatch{Type: "report.*"}}, ""},
		{"a queue, an owner and labels", Gate{Match: GateMatch{
			Queue: "mail", Owner: "ann", Labels: map[string]string{"tier": "1"},
		}}, ""},
		{"its own namespace", Gate{Match: GateMatch{Namespace: "default"}}, ""},
		{"everything, and it says so", Gate{Match: GateMatch{All: true}}, ""},
		{"everything by mistake", Gate{}, "match"},
		{"everything by a star", Gate{Match: GateMatch{Type: "**"}}, "match"},
		{"empty labels", Gate{Match: GateMatch{Labels: map[string]string{}}}, "match"},
		{"all beside a type", Gate{Match: GateMatch{All: true, Type: "a"}}, "match.all"},
		{"another namespace", Gate{Match: GateMatch{Namespace: "other"}}, "match.namespace"},
		{"a type with a blank", Gate{Match: GateMatch{Type: "a b"}}, "match.type"},
		{"a queue with a star", Gate{Match: GateMatch{Queue: "m*"}}, "match.queue"},
		{"an owner with a line break", Gate{Match: GateMatch{Owner: "a\nb"}}, "match.owner"},
		{"a mode", Gate{Match: GateMatch{Type: "a"}, Mode: "shut"}, "mode"},
		{"running", Gate{Match: GateMatch{Type: "a"}, Running: "kill"}, "running"},
		{"a reason with a line break", Gate{Match: GateMatch{Type: "a"}, Reason: "a\nb"}, "reason"},
		{"a long reason", Gate{Match: GateMatch{Type: "a"}, Reason: strings.Repeat("x", 301)}, "reason"},
		{"expired", Gate{Match: GateMatch{Type: "a"}, Expires: now}, "expires_at"},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.gate.Namespace = "default"
			err := test.gate.Admit(now)
			var fault *FieldError
			switch errors.As(err, &fault); {
			case test.field == "" && err != nil, test.field != "" && (fault == nil || fault.Field != test.field):
				t.Errorf("%v, want an error of the field %q", err, test.field)
			case err == nil && (test.gate.Mode != GateHold || test.gate.Running != GateKeep):
				t.Errorf("defaults are missing: %+v", test.gate)
			}
		})
	}
}

func TestGateMatches(t *testing.T) {
	job := Job{Namespace: "default"}
	job.Type, job.Queue, job.Owner = "report.daily.pdf", "mail", "ann"
	job.Labels = map[string]string{"tier": "1", "team": "x"}
	for _, test := range []struct {
		match GateMatch
		want  bool
	}{
		{GateMatch{All: true}, true},
		{GateMatch{Namespace: "default"}, true},
		{GateMatch{Type: "report.daily.pdf"}, true},
		{GateMatch{Type: "report"}, false},
		{GateMatch{Type: "report.*"}, true},
		{GateMatch{Type: "*.pdf"}, true},
		{GateMatch{Type: "*.daily"}, false},
		{GateMatch{Type: "*daily*"}, true},
		{GateMatch{Type: "r*d*y*f"}, true},
		{GateMatch{Type: "r*y*d*f"}, true},
		{GateMatch{Type: "r*f*f"}, false},
		{GateMatch{Type: "report.daily.pdf*"}, true},
		{GateMatch{Queue: "mail", Owner: "ann"}, true},
		{GateMatch{Queue: "mail", Owner: "bob"}, false},
		{GateMatch{Queue: "mai"}, false},
		{GateMatch{Labels: map[string]string{"tier": "1"}}, true},
		{GateMatch{Labels: map[string]string{"tier": "1", "team": "x"}}, true},
		{GateMatch{Labels: map[string]string{"tier": "2"}}, false},
		{GateMatch{Labels: map[string]string{"other": ""}}, false},
	} {
		if got := test.match.Matches(&job); got != test.want {
			t.Errorf("%+v matches: %t", test.match, got)
		}
	}
}

func TestAGateDecides(t *testing.T) {
	const now = Time(10_800_000)
	job := &Job{ID: 7, Namespace: "default", Version: 1, State: JobActive}
	job.Schedule.Every, job.Overlap, job.Misfire.Policy = Duration(time.Hour), OverlapSkip, MisfireOnce
	run := NewRun(job, now)
	run.Covers = now
	guards := Guards{job.OverlapGuard()}
	hold := &Gate{ID: "g", Mode: GateHold, Reason: "maintenance", By: "ann", At: now}
	drop := &Gate{ID: "g", Mode: GateDrop, Reason: "broken"}

	parked := run
	parked.Hold, parked.Wake = "gate/g", Never
	parked.Flags &^= FlagMisfirePolicy
	for _, worker := range []string{"", "w"} {
		d := Candidate{Job: job, Run: run, Guards: guards, Gate: hold, Worker: worker}
		verdict, c := d.Decide(now)
		if verdict != VerdictWait || len(c.Runs) != 1 || len(c.Folds)+len(c.Guards) != 0 ||
			c.Runs[0].Hold != "gate/g" || c.Runs[0].Wake != Never || c.Runs[0].Has(FlagMisfirePolicy) {
			t.Errorf("held by worker %q: %d %+v", worker, verdict, c)
		}
		d.Gate = drop
		verdict, c = d.Decide(now)
		if verdict != VerdictEnd || len(c.Runs) != 2 || c.Runs[0].State != StateSkipped ||
			c.Runs[0].Reason != "gate g: broken" || c.Runs[1].ID.Due != now.Add(time.Hour) ||
			c.Runs[1].Seq != 0 {
			t.Errorf("dropped by worker %q: %d %+v", worker, verdict, c)
		}
	}
	// a run that waits for a gate: the release alone passes it on, until the gate is forgotten
	late := now.Add(24 * time.Hour)
	opening := *hold
	opening.Opened = now
	for _, d := range []Candidate{
		{Job: job, Run: parked, Guards: guards, Gate: hold, Line: hold},
		{Job: job, Run: parked, Guards: guards, Line: &opening},
	} {
		if verdict, c := d.Decide(late); verdict != VerdictHold || len(c.Runs) != 0 {
			t.Errorf("%d %+v", verdict, c)
		}
	}
	d := Candidate{Job: job, Run: parked, Guards: guards}
	verdict, c := d.Decide(late)
	if verdict != VerdictWait || c.Runs[0].Hold != "" || c.Runs[0].Wake != late {
		t.Errorf("%d %+v", verdict, c)
	}
	d.Run = c.Runs[0]
	if verdict, _ := d.Decide(late.Add(time.Minute)); verdict != VerdictReady {
		t.Errorf("the run that waited is decided as %d", verdict)
	}
	job.Limits = []Limit{{Key: "k", Concurrency: 1, Weight: 1}} // back to the line of its job
	d.Run = parked
	if c := d.Release(late); c.Runs[0].Hold != "limit/key/k" {
		t.Errorf("it waits for %q", c.Runs[0].Hold)
	}
}

// A run that is dropped leaves the turn that it has between two attempts, and its place in line.
func TestADroppedRunLeavesItsTurn(t *testing.T) {
	const now = Time(10_800_000)
	job := &Job{ID: 7, Namespace: "default", Version: 1, State: JobActive}
	job.Schedule.Every, job.Overlap = Duration(time.Hour), OverlapQueueAll
	run := NewRun(job, now)
	run.Covers, run.Attempt, run.Claimed = now, 1, now
	run.Flags |= FlagPlanned
	guard := turns{Holder: now, Queue: []Time{now + 5}}.guard(job.OverlapGuard())
	d := Candidate{Job: job, Run: run, Guards: Guards{guard}, Gate: &Gate{ID: "g", Mode: GateDrop}}
	verdict, c := d.Decide(now)
	if verdict != VerdictEnd || len(c.Runs) != 1 || len(c.Guards) != 1 {
		t.Fatalf("%d %+v", verdict, c)
	}
	if next := Guards(c.Guards).NextInLine(job.ID); next.Due != now+5 {
		t.Errorf("next is %v", next)
	}
}

func TestWhatAGateSaysOfItsRuns(t *testing.T) {
	const now = Time(1_700_000_000_000)
	run := Run{State: StateWaiting, Wake: Never, Hold: "gate/queue/mail"}
	gate := Gate{
		ID: "queue/mail", Reason: "maintenance", By: "ann", At: now, Expires: now.Add(time.Hour),
		Rate: Rate{5000, time.Second},
	}
	d := Candidate{Run: run, Line: &gate}
	for _, test := range []struct {
		at   Time
		want string
	}{
		{now, "gate queue/mail: maintenance, closed by ann at 2023-11-14T22:13:20.000Z until " +
			"2023-11-14T23:13:20.000Z"},
		{now.Add(time.Hour), "gate queue/mail: maintenance, open since 2023-11-14T23:13:20.000Z: " +
			"the runs that it held leave, 5000/s"},
	} {
		if got := d.HeldBy(test.at); got != test.want {
			t.Errorf("%s\nwant %s", got, test.want)
		}
	}
	d.Line = nil
	if got := d.HeldBy(now); got != "gate queue/mail, which is open: it is about to start" {
		t.Error(got)
	}
}
