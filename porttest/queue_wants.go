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
