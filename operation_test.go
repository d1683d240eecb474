package carillon_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
)

func TestAnOperationIsAdmittedOrSaysWhatIsWrong(t *testing.T) {
	all := carillon.JobFilter{All: true}
	for _, c := range []struct {
		name string
		op   carillon.Operation
		want string
	}{
		{"all jobs", carillon.Operation{Kind: "pause", Filter: all}, ""},
		{"some jobs", carillon.Operation{Kind: "cancel", Filter: carillon.JobFilter{Owner: "ann"}}, ""},
		{
			"finished jobs can run again",
			carillon.Operation{Kind: "run", Filter: carillon.JobFilter{
				Type: "a.*", States: []carillon.JobState{carillon.JobFinished},
			}},
			"",
		},
		{
			"no kind",
			carillon.Operation{Filter: all},
			"kind: it is empty: want pause, resume, cancel, run or redrive",
		},
		{
			"no filter",
			carillon.Operation{Kind: "pause"},
			`filter: it chooses no jobs: want type, name, owner, queue or labels; "all": true chooses all jobs`,
		},
		{
			"only states",
			carillon.Operation{Kind: "pause", Filter: carillon.JobFilter{
				States: []carillon.JobState{carillon.JobActive},
			}},
			`filter: it chooses no jobs: want type, name, owner, queue or labels; "all": true chooses all jobs`,
		},
		{
			"all and a type",
			carillon.Operation{Kind: "pause", Filter: carillon.JobFilter{All: true, Type: "a"}},
			"filter.all: the filter has other fields: want only states beside it",
		},
		{
			"no labels",
			carillon.Operation{Kind: "pause", Filter: carillon.JobFilter{Labels: map[string]string{}}},
			"filter.labels: it is empty: want at least one label; leave the field out for none",
		},
		{
			"a state to which it does not apply",
			carillon.Operation{Kind: "cancel", Filter: carillon.JobFilter{
				All: true, States: []carillon.JobState{carillon.JobFinished},
			}},
			"filter.states: cancel does nothing to a job that is finished: want active or paused",
		},
		{
			"too fast",
			carillon.Operation{Kind: "pause", Filter: all, Rate: 10_001},
			`rate: "10001" is not valid: want a number from 1 to 10000, or 0 for as many as it can`,
		},
		{
			"keep_running without cancel",
			carillon.Operation{Kind: "pause", Filter: all, KeepRunning: true},
			"keep_running: the kind is pause: want it only with cancel",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := ""
			if err := c.op.Admit(); err != nil {
				got = err.Error()
				if !errors.Is(err, carillon.ErrInvalid) {
					t.Errorf("%v is not ErrInvalid", err)
				}
			}
			if got != c.want {
				t.Errorf("%s\nwant %s", got, c.want)
			}
			if got == "" && len(c.op.Filter.States) == 0 {
				t.Error("the filter has no states")
			}
		})
	}
}

func TestAStarInAFilterStandsForAnyCharacters(t *testing.T) {
	for pattern, want := range map[string][]string{
		"report.*":  {"report.", "report.day", "report.day.late"},
		"*":         {"", "report.", "report.day", "report.day.late", "mail", "areport.day"},
		"*.day":     {"report.day", "areport.day"},
		"r*.d*y":    {"report.day"},
		"*rep*day*": {"report.day", "report.day.late", "areport.day"},
		"mail":      {"mail"},
		"mail*mail": nil,
		"a*a":       nil,
		"**day":     {"report.day", "areport.day"},
	} {
		filter, got := carillon.JobFilter{Type: pattern}, []string(nil)
		for _, text := range []string{"", "report.", "report.day", "report.day.late", "mail", "areport.day"} {
			job := carillon.Job{}
			if job.Type = text; filter.Chooses(&job) {
				got = append(got, text)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s matches %q, want %q", pattern, got, want)
		}
	}
}

func TestTheQueryOfAFilterAsksTheStoreForAllThatItCan(t *testing.T) {
	filter := carillon.JobFilter{
		Type: "report.*", Name: "n", Owner: "ann", Queue: "mail",
		Labels: map[string]string{"b": "2", "a": "1"}, States: []carillon.JobState{carillon.JobPaused},
	}
	q := filter.Query("ns", 1000)
	if q.Namespace != "ns" || q.Type != "" || q.Name != "n" || q.Owner != "ann" || q.CreatedTo != 1001 ||
		!slices.Equal(q.Labels, []carillon.Label{{Key: "a", Value: "1"}, {Key: "b", Value: "2"}}) ||
		!slices.Equal(q.States, filter.States) {
		t.Errorf("%+v", q)
	}
	job := carillon.Job{}
	job.Type, job.Name, job.Queue = "report.day", "n", "mail"
	if !filter.Chooses(&job) {
		t.Error("it does not choose the job")
	}
	if job.Queue = "other"; filter.Chooses(&job) {
		t.Error("it chooses a job of another queue")
	}
}

func TestTheTextOfAnOperationIDIsRead(t *testing.T) {
	id := carillon.OperationID(1 << 50)
	got, err := carillon.ParseOperationID(id.String())
	if err != nil || got != id {
		t.Errorf("%s became %s: %v", id, got, err)
	}
	for _, text := range []string{
		"", "op_", "job_" + id.String()[3:], id.String() + "0", "op_0000000000000",
	} {
		if _, err := carillon.ParseOperationID(text); !errors.Is(err, carillon.ErrInvalid) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestTheRecordOfAnOperationIsOpenUntilItsEnd looks at the guards that each write of a record has.
func TestTheRecordOfAnOperationIsOpenUntilItsEnd(t *testing.T) {
	r := carillon.OperationRecord{Operation: carillon.Operation{
		Namespace: "ns", ID: 1 << 50, Kind: "pause", State: carillon.OperationCounting,
		Filter: carillon.JobFilter{Type: "a.*", States: []carillon.JobState{carillon.JobActive}},
	}}
	begun := r.Save(10)
	if len(begun.Guards) != 2 || begun.Guards[0].Expires != 0 || string(begun.Guards[1].Value) != "ns" {
		t.Fatalf("begin: %v", begun.Guards)
	}
	namespace, id, err := carillon.OpenOperationOf(&begun.Guards[1])
	if namespace != "ns" || id != r.ID || err != nil {
		t.Errorf("open: %s %s %v", namespace, id, err)
	}
	read := func(g carillon.Guard) carillon.OperationRecord {
		g.Rev++
		r, err := carillon.OperationOf(&g)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	r = read(begun.Guards[0])
	r.Cursor, r.Pending = "c", []string{"x", "y"}
	for i := range 30 {
		r.Fail(string(rune('a'+i)), errors.New("no"))
	}
	step := r.Save(20)
	if r = read(step.Guards[0]); len(step.Guards) != 1 || r.Failed != 30 || len(r.Errors) != 20 ||
		r.Cursor != "c" || len(r.Pending) != 2 || r.Namespace != "ns" || r.Ended != 0 {
		t.Errorf("step: %v, %+v", step.Guards, r)
	}
	r.State = carillon.OperationCanceled
	end := r.Save(30)
	if len(end.Guards) != 2 || end.Guards[1].Value != nil || end.Guards[1].Rev != 1 ||
		end.Guards[0].Expires != carillon.Time(30).Add(carillon.OperationTime) {
		t.Errorf("end: %v", end.Guards)
	}
	r = read(end.Guards[0])
	after := r.Save(40)
	if len(after.Guards) != 1 || r.Ended != 30 || after.Guards[0].Expires != end.Guards[0].Expires {
		t.Errorf("a write after the end: %v, ended %s", after.Guards, r.Ended)
	}
}

func TestARedriveIsAdmittedOrSaysWhatIsWrong(t *testing.T) {
	for _, c := range []struct {
		name string
		op   carillon.Operation
		want string
	}{
		{"all letters", carillon.Operation{Kind: "redrive", Dead: &carillon.DeadFilter{All: true}}, ""},
		{"some letters", carillon.Operation{Kind: "redrive", Dead: &carillon.DeadFilter{Fingerprint: 7}}, ""},
		{
			"no filter",
			carillon.Operation{Kind: "redrive"},
			"dead: it chooses no dead letters: want job_id, type, owner, queue, labels, error, fingerprint, " +
				`from or to; "all": true chooses all dead letters`,
		},
		{
			"a filter of jobs",
			carillon.Operation{Kind: "redrive", Filter: carillon.JobFilter{All: true}},
			"filter: it chooses jobs: want the filter of a redrive in dead",
		},
		{
			"times in the wrong order",
			carillon.Operation{Kind: "redrive", Dead: &carillon.DeadFilter{From: 2000, To: 2000}},
			`dead.to: "1970-01-01T00:00:02.000Z" is not valid: want a time after from, 1970-01-01T00:00:02.000Z`,
		},
		{
			"letters with pause",
			carillon.Operation{
				Kind: "pause", Filter: carillon.JobFilter{All: true}, Dead: &carillon.DeadFilter{All: true},
			},
			"dead: the kind is pause: want it only with redrive",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := ""
			if err := c.op.Admit(); err != nil {
				got = err.Error()
			}
			if got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

func TestADeadLetterExpiresByItsOwnTimeOrByTheServersRule(t *testing.T) {
	day := carillon.Duration(24 * time.Hour)
	for _, c := range []struct {
		run    carillon.Run
		server carillon.Duration
		want   carillon.Time
	}{
		{carillon.Run{Ended: 1000}, day, carillon.Time(1000).Add(day.Std())},
		{carillon.Run{Ended: 1000, DeadExpires: 7000}, day, 7000},
		{carillon.Run{Ended: 1000}, 0, 0},
	} {
		if got := c.run.DeadExpiry(c.server); got != c.want {
			t.Errorf("%+v expires at %s, want %s", c.run, got, c.want)
		}
	}
}
