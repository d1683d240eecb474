package carillon

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func needing(labels map[string]string) *Job {
	job := &Job{Namespace: "default"}
	job.Type, job.Queue, job.Needs = "mail.send", "mail", labels
	job.Target.Handler = &Handler{}
	return job
}

func TestARunOfAJobWithoutNeedsCarriesWhatItAlwaysDid(t *testing.T) {
	job := needing(nil)
	if run := NewRun(job, 1); run.Needs != "mail.send" || run.Lane().Labels() != nil ||
		run.Lane().WithoutLabels() != run.Lane() {
		t.Errorf("%+v", run.Lane())
	}
	if n := testing.AllocsPerRun(10, func() { job.needs() }); n != 0 {
		t.Errorf("it costs %v allocations", n)
	}
}

func TestAWorkerTakesRunsThatNeedOnlyLabelsThatItHas(t *testing.T) {
	has := map[string]string{"gpu": "true", "zone": "eu = 1", "empty": ""}
	for _, c := range []struct {
		needs map[string]string
		takes bool
	}{
		{nil, true},
		{map[string]string{"gpu": "true"}, true},
		{map[string]string{"gpu": "true", "zone": "eu = 1", "empty": ""}, true},
		{map[string]string{"gpu": "false"}, false},
		{map[string]string{"gpu": ""}, false},
		{map[string]string{"empty": ""}, true},
		{map[string]string{"none": ""}, false},
		{map[string]string{"gpu": "true", "none": "x"}, false},
		{map[string]string{"a": "x", "gpu": "true"}, false},
	} {
		job := needing(c.needs)
		for _, want := range []Want{
			{Labels: has}, {Kinds: []string{"handler"}, Types: []string{"mail.send"}, Labels: has},
		} {
			if takes := want.Takes(job.Lane()); takes != c.takes {
				t.Errorf("%v: %+v takes it: %t", c.needs, want, takes)
			}
		}
		other := Want{Kinds: []string{"handler"}, Types: []string{"mail.read"}, Labels: has}
		unlabeled := Want{}
		if other.Takes(job.Lane()) || unlabeled.Takes(job.Lane()) != (len(c.needs) == 0) {
			t.Errorf("%v: taken by a worker for another type, or without labels", c.needs)
		}
		job.Target, job.Type = Target{Command: &Command{Shell: "true"}}, "command"
		for kind, performs := range map[string]bool{"command": true, "http": false} {
			want := Want{Kinds: []string{kind}, Labels: has}
			if takes := want.Takes(job.Lane()); takes != (performs && c.takes) {
				t.Errorf("%v: a command: %+v takes it: %t", c.needs, want, takes)
			}
		}
	}
}

func TestWantsWithOtherLabelsTakeOtherRuns(t *testing.T) {
	a, b := Want{Labels: map[string]string{"gpu": "true"}}, Want{Labels: map[string]string{"gpu": "false"}}
	if a.TakesSame(b) || a.TakesSame(Want{}) || !a.TakesSame(Want{Labels: maps.Clone(a.Labels)}) {
		t.Error("labels do not count")
	}
}

func TestNeedsAreAdmittedLikeLabels(t *testing.T) {
	many := map[string]string{}
	for _, key := range strings.Split("abcdefghi", "") {
		many[key] = "x"
	}
	for name, c := range map[string]struct {
		needs       map[string]string
		field, want string
	}{
		"a bad key":     {map[string]string{"a b": "x"}, "needs", "keys of 1 to 64 characters"},
		"no key":        {map[string]string{"": "x"}, "needs", "keys of 1 to 64 characters"},
		"a bad value":   {map[string]string{"gpu": "a\tb"}, "needs.gpu", "at most 128 printable characters"},
		"a long value":  {map[string]string{"gpu": strings.Repeat("x", 129)}, "needs.gpu", "at most 128"},
		"too many":      {many, "needs", "at most 8 labels"},
		"too much text": {map[string]string{"gpu": strings.Repeat("ä", 100)}, "needs", "at most 190 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			def := needing(c.needs).Definition
			err := def.Admit(Now())
			var fault *FieldError
			if !errors.As(err, &fault) || fault.Field != c.field || !strings.Contains(fault.Want, c.want) {
				t.Errorf("%v", err)
			}
		})
	}
	longest := map[string]string{
		"a": strings.Repeat("x", 92), "b": strings.Repeat("x", 92),
	}
	job := needing(longest)
	job.Type = strings.Repeat("t", 64)
	if err := job.Admit(Now()); err != nil || len(job.needs()) > 255 {
		t.Errorf("%v: %d bytes", err, len(job.needs()))
	}
}

func TestAnEditMovesRunsThatHaveNotBegunToTheNewNeeds(t *testing.T) {
	job := needing(map[string]string{"gpu": "true"})
	run := NewRun(job, 1)
	edited := needing(map[string]string{"zone": "eu"})
	edited.Version = 2
	if moved := run.moveTo(edited, 0); moved.Lane() != edited.Lane() || moved.Lane() == run.Lane() {
		t.Errorf("%+v", moved.Lane())
	}
	edited.Needs = nil
	if moved := run.moveTo(edited, 0); moved.Needs != "mail.send" {
		t.Errorf("%q", moved.Needs)
	}
}

func TestADemandWithoutAllLabelsKnowsTheLanesThatItCannotJudge(t *testing.T) {
	gpu, zone := Label{"gpu", "true"}, Label{"zone", "eu"}
	both := needing(map[string]string{"gpu": "true", "zone": "eu"}).Lane()
	for name, c := range map[string]struct {
		known   []Label
		labels  map[string]string
		unknown bool
	}{
		"none is known":                     {nil, nil, true},
		"one is known, and the worker's":    {[]Label{gpu}, map[string]string{"gpu": "true"}, true},
		"one is known, and no worker's":     {[]Label{gpu}, nil, false},
		"both are known, and the worker's":  {[]Label{gpu, zone}, map[string]string{"gpu": "true", "zone": "eu"}, false},
		"both are known, and one worker's":  {[]Label{gpu, zone}, map[string]string{"gpu": "true"}, false},
		"another value of the key is known": {[]Label{{"gpu", "false"}}, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			d := Demand{Wants: []Want{{Queues: []string{"mail"}, Labels: c.labels}}, Partial: true, Known: c.known}
			if got := d.Unknown(both); got != c.unknown {
				t.Error(got)
			}
			if d.Unknown(needing(nil).Lane()) {
				t.Error("a lane without labels")
			}
			d.Wants[0].Queues[0] = "other"
			if d.Unknown(both) {
				t.Error("a lane of another queue")
			}
			d.Wants[0].Queues[0], d.Partial = "mail", false
			if d.Unknown(both) {
				t.Error("a demand that has all labels")
			}
		})
	}
}

// Whatever labels a job needs, the text that its runs carry says exactly these.
func FuzzNeeds(f *testing.F) {
	f.Add("mail.send", "gpu", "true", "zone", "a=b c")
	f.Add("a", "k", "", "l", "\u00a0ü€")
	f.Add("a/b@c", "k=v", "x\ty", "a.b", "\n")
	f.Fuzz(func(t *testing.T, jobType, k1, v1, k2, v2 string) {
		job := needing(map[string]string{k1: v1, k2: v2})
		job.Type = jobType
		if job.Admit(Now()) != nil {
			t.Skip("not a job: the fuzzer makes up labels that are refused")
		}
		lane := job.Lane()
		got := map[string]string{}
		for _, label := range lane.Labels() {
			got[label.Key] = label.Value
		}
		if !maps.Equal(got, job.Needs) || lane.WithoutLabels().Needs != jobType ||
			!utf8.ValidString(lane.Needs) {
			t.Fatalf("%q says %v", lane.Needs, got)
		}
		byKey := func(a, b Label) int { return strings.Compare(a.Key, b.Key) }
		if !slices.IsSortedFunc(lane.Labels(), byKey) {
			t.Errorf("%q is not sorted", lane.Needs)
		}
		if want := (Want{Labels: got}); !want.Takes(lane) {
			t.Errorf("%q is not taken", lane.Needs)
		}
		for key := range got {
			other := maps.Clone(got)
			other[key] += "x"
			if want := (Want{Labels: other}); want.Takes(lane) {
				t.Errorf("%q is taken by %v", lane.Needs, other)
			}
		}
	})
}

func BenchmarkTakes(b *testing.B) {
	want := Want{
		Queues: []string{"default", "mail"}, Kinds: []string{"command", "handler", "http"},
		Types: []string{"mail.read", "mail.send"}, Labels: map[string]string{"host": "a", "gpu": "true"},
	}
	any := Want{}
	plain, labeled := needing(nil).Lane(), needing(map[string]string{"gpu": "true"}).Lane()
	for _, c := range []struct {
		name  string
		want  *Want
		lane  Lane
		takes bool
	}{
		{"plain", &want, plain, true},
		{"labeled", &want, labeled, true},
		{"any", &any, plain, true},
		{"other", &want, Lane{Namespace: "default", Queue: "mail", Needs: "other", Priority: 5}, false},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if c.want.Takes(c.lane) != c.takes {
					b.Fatal()
				}
			}
		})
	}
}
