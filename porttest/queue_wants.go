package porttest

import (
	"cmp"
	"slices"

	"github.com/carillon-run/carillon"
)

// needing returns a sample run of a namespace that needs something of a worker.
func needing(namespace, needs string, job int) carillon.Run {
	r := sample(job, epoch+carillon.Time(job))
	r.Namespace, r.Needs = namespace, needs
	return r
}

func queueWants(t queueTest) {
	var others []carillon.Run
	for i := range 50 {
		others = append(others, needing("a", "mail.read", 1+2*i), needing("b", ":command", 2+2*i))
	}
	mail, call, old := needing("a", "mail.send", 201), needing("a", ":http", 202), needing("a", "", 203)
	t.push(others...)
	t.push(mail, call, old)
	for _, c := range []struct {
		wants []carillon.Want
		runs  []carillon.Run
	}{
		{[]carillon.Want{{Namespaces: []string{"c"}}}, nil},
		{[]carillon.Want{{Namespaces: []string{"b"}, Kinds: []string{"handler", "http"}}}, nil},
		{[]carillon.Want{{Namespaces: []string{"a"}, Kinds: []string{"http"}}}, []carillon.Run{call, old}},
		{
			[]carillon.Want{{Kinds: []string{"handler"}, Types: []string{"mail", "mail.send"}}},
			[]carillon.Run{mail},
		},
		{[]carillon.Want{{Namespaces: []string{"b"}, Kinds: []string{"http"}}, {Queues: []string{"x"}}}, nil},
		{[]carillon.Want{{Queues: []string{"x"}}, {Namespaces: []string{"a", "b"}}}, others},
	} {
		runs, err := t.Pull(t.Context(), carillon.Demand{Wants: c.wants, Max: 200, NoWait: true})
		if err != nil {
			t.Fatal(err)
		}
		slices.SortFunc(runs, func(a, b carillon.Run) int { return cmp.Compare(a.ID.Job, b.ID.Job) })
		same(t, "runs", idsOf(runs), idsOf(c.runs))
	}
}

func queueServesWanted(t queueTest) {
	pulls := map[string]chan []carillon.Run{}
	for _, jobType := range []string{"mail.read", "mail.send"} {
		answer := make(chan []carillon.Run, 1)
		pulls[jobType] = answer
		go func() {
			runs, _ := t.Pull(patient(t), carillon.Demand{
				Wants: []carillon.Want{{Types: []string{jobType}, Kinds: []string{"handler"}}}, Max: 10,
			})
			answer <- runs
		}()
	}
	t.push(needing("a", ":http", 1))
	send, read := needing("a", "mail.send", 2), needing("a", "mail.read", 3)
	t.push(send)
	same(t, "send", <-pulls["mail.send"], []carillon.Run{send})
	t.push(read)
	same(t, "read", <-pulls["mail.read"], []carillon.Run{read})
	same(t, "left", t.Len(), 1)
}

func labeled(job int, labels map[string]string) carillon.Run {
	return needing("a", needsOf("mail.send", labels), job)
}

// needsOf is what runs of a job with such a handler carry.
func needsOf(jobType string, labels map[string]string) string {
	job := carillon.Job{}
	job.Type, job.Needs, job.Target.Handler = jobType, labels, &carillon.Handler{}
	return job.Lane().Needs
}

func queueLabels(t queueTest) {
	gpu, both := labeled(1, map[string]string{"gpu": "true"}), labeled(2, map[string]string{
		"gpu": "true", "zone": "eu 1",
	})
	plain := labeled(3, nil)
	t.push(gpu, both, plain)
	for _, c := range []struct {
		labels map[string]string
		runs   []carillon.Run
	}{
		{map[string]string{"gpu": "false", "zone": "eu 1"}, []carillon.Run{plain}},
		{map[string]string{"zone": "eu 1"}, nil},
		{map[string]string{"gpu": "true", "host": "x"}, []carillon.Run{gpu}},
		{map[string]string{"gpu": "true", "zone": "eu 1"}, []carillon.Run{both}},
	} {
		wants := []carillon.Want{{Types: []string{"mail.send"}, Labels: c.labels}}
		same(t, "length", t.Len(wants...), len(c.runs))
		runs, err := t.Pull(t.Context(), carillon.Demand{Wants: wants, Max: 10, NoWait: true})
		if err != nil {
			t.Fatal(err)
		}
		same(t, "runs", idsOf(runs), idsOf(c.runs))
	}
}

func queueUnknownLabels(t queueTest) {
	gpu, zone := labeled(1, map[string]string{"gpu": "true"}), labeled(2, map[string]string{"zone": "eu"})
	second, plain := labeled(3, map[string]string{"gpu": "true"}), labeled(4, nil)
	want := carillon.Demand{Wants: []carillon.Want{{Queues: []string{gpu.Queue}}}, Max: 10, Partial: true}
	answer := make(chan []carillon.Run, 1)
	go func() {
		runs, _ := t.Pull(patient(t), want)
		answer <- runs
	}()
	t.push(gpu)
	same(t, "a copy, for a pull that waits", <-answer, []carillon.Run{gpu})
	t.push(zone, second)
	pull := func(name string, runs ...carillon.Run) {
		t.Helper()
		want.NoWait = true
		got, err := t.Pull(t.Context(), want)
		if err != nil {
			t.Fatal(err)
		}
		slices.SortFunc(got, func(a, b carillon.Run) int { return int(a.ID.Job - b.ID.Job) })
		same(t, name, idsOf(got), idsOf(runs))
	}
	pull("one of each lane", gpu, zone)
	pull("they are still there", gpu, zone)
	want.Known = []carillon.Label{{Key: "gpu", Value: "true"}}
	pull("what is not known", zone)
	want.Known = append(want.Known, carillon.Label{Key: "zone", Value: "eu"})
	pull("all labels are known")
	want.Known = nil
	t.push(plain)
	pull("copies come also with a run that is wanted", gpu, zone, plain)
	want.Wants[0].Queues = []string{"other"}
	pull("those of another queue")
	want.Partial, want.Wants[0] = false, carillon.Want{Labels: map[string]string{"gpu": "true", "zone": "eu"}}
	pull("all of them are left", gpu, zone, second)
}
