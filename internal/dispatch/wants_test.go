package dispatch_test

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/worker/protocol"
)

func command(d *carillon.Definition) {
	d.Target = carillon.Target{Command: &carillon.Command{Argv: []string{"true"}}}
}

func (h *house) pullWanted(n *node, worker string, want carillon.Want) []protocol.Task {
	h.Helper()
	tasks, err := n.Pull(context.Background(), protocol.Pull{Worker: worker, Want: want, Max: 1000})
	h.must(err)
	return tasks
}

func TestAWorkerIsGivenOnlyWhatItCanPerform(t *testing.T) {
	in(t, 2, func(h *house) {
		n := h.nodes[0]
		functions, commands := h.register(n), h.register(n)
		for range 100 {
			h.submit(n, command)
		}
		h.submit(n, func(d *carillon.Definition) { d.Type = "other" })
		wanted := h.submit(n, nil)
		synctest.Wait()
		handles := carillon.Want{Kinds: []string{"handler"}, Types: []string{"test"}}
		tasks := h.pullWanted(n, functions, handles)
		if len(tasks) != 1 || tasks[0].Run.ID.Job != wanted {
			t.Errorf("the worker with a handler got %d runs", len(tasks))
		}
		if tasks := h.pullWanted(n, functions, handles); len(tasks) != 0 {
			t.Errorf("then it got %d runs", len(tasks))
		}
		got := 0
		for range 3 { // the first claim of a burst is small
			tasks := h.pullWanted(n, commands, carillon.Want{Kinds: []string{"command", "http"}})
			got += len(tasks)
		}
		if got != 100 {
			t.Errorf("the worker for commands got %d runs", got)
		}
	})
}

func TestAWorkerIsGivenOnlyRunsOfItsNamespaces(t *testing.T) {
	in(t, 1, func(h *house) {
		n := h.nodes[0]
		worker := h.register(n)
		h.submit(n, nil)
		if tasks := h.pullWanted(n, worker, carillon.Want{Namespaces: []string{"other"}}); len(tasks) > 0 {
			t.Errorf("the worker of another namespace got %d runs", len(tasks))
		}
		tasks := h.pullWanted(n, worker, carillon.Want{Namespaces: []string{"other", "default"}})
		if len(tasks) != 1 {
			t.Errorf("the worker got %d runs", len(tasks))
		}
	})
}

// waitingPull returns when a pull waits; the channel gets its answer.
func (h *house) waitingPull(n *node, worker string, want carillon.Want) <-chan []protocol.Task {
	answer := make(chan []protocol.Task)
	go func() { answer <- h.pullWanted(n, worker, want) }()
	synctest.Wait()
	return answer
}

// A slot of a pull is reserved for a job that is being submitted only if its worker can perform the job.
func TestNoSlotIsReservedForAJobThatTheWorkerCannotPerform(t *testing.T) {
	in(t, 1, func(h *house) {
		n := h.nodes[0]
		worker := h.register(n)
		answer := h.waitingPull(n, worker, carillon.Want{Kinds: []string{"handler"}})
		h.submit(n, command)
		wanted := h.submit(n, nil)
		if tasks := <-answer; len(tasks) != 1 || tasks[0].Run.ID.Job != wanted {
			t.Errorf("the pull got %d runs", len(tasks))
		}
	})
}

// Older due runs come before a job that is being submitted, but only if the worker could perform them.
func TestADueRunThatNoWorkerCanPerformKeepsNoJobFromBeingPreclaimed(t *testing.T) {
	in(t, 1, func(h *house) {
		n := h.nodes[0]
		h.submit(n, command)
		worker := h.register(n)
		answer := h.waitingPull(n, worker, carillon.Want{Kinds: []string{"handler"}})
		wanted := h.submit(n, nil)
		if tasks := <-answer; len(tasks) != 1 || tasks[0].Run.ID.Job != wanted || tasks[0].Run.Rev != 1 {
			t.Errorf("the pull got %+v, want a run that was inserted already claimed", tasks)
		}
	})
}

func TestAJobThatNoWorkerCanPerformKeepsNoOtherOfItsBatchFromBeingPreclaimed(t *testing.T) {
	in(t, 1, func(h *house) {
		n := h.nodes[0]
		worker := h.register(n)
		answer := h.waitingPull(n, worker, carillon.Want{Kinds: []string{"handler"}})
		defs := make([]carillon.Definition, 2)
		command(&defs[0])
		defs[1].Type, defs[1].Target.Handler = "test", &carillon.Handler{}
		for i := range defs {
			h.must(defs[i].Admit(h.clock.Now()))
		}
		jobs, err := n.ledger.Submit(context.Background(), carillon.DefaultNamespace, defs)
		h.must(err)
		if tasks := <-answer; len(tasks) != 1 || tasks[0].Run.ID.Job != jobs[1].ID || tasks[0].Run.Rev != 1 {
			t.Errorf("the pull got %+v, want a run that was inserted already claimed", tasks)
		}
	})
}

func gpu(d *carillon.Definition) { d.Needs = map[string]string{"gpu": "true"} }

func TestASlotIsReservedOnlyAtAWorkerWithTheLabelsThatAJobNeeds(t *testing.T) {
	in(t, 1, func(h *house) {
		n := h.nodes[0]
		without := h.waitingPull(n, h.register(n), carillon.Want{Labels: map[string]string{"gpu": "no"}})
		with := h.waitingPull(n, h.register(n), carillon.Want{Labels: map[string]string{"gpu": "true"}})
		wanted := h.submit(n, gpu)
		if tasks := <-with; len(tasks) != 1 || tasks[0].Run.ID.Job != wanted || tasks[0].Run.Rev != 1 {
			t.Errorf("the pull got %+v, want a run that was inserted already claimed", tasks)
		}
		if tasks := <-without; len(tasks) != 0 {
			t.Errorf("the worker without the label got %d runs", len(tasks))
		}
	})
}

// A crowd of submits asks how many slots are free. Wants that differ only in labels that the run does not
// need are one want.
func TestFreeSlotsAreThoseOfWorkersWithTheLabelsThatAJobNeeds(t *testing.T) {
	in(t, 1, func(h *house) {
		n := h.nodes[0]
		var answers []<-chan []protocol.Task
		for i := range 1000 {
			labels := map[string]string{"host": strconv.Itoa(i)}
			if i < 3 {
				labels["gpu"] = "true"
			}
			answers = append(answers, h.waitingPull(n, h.register(n), carillon.Want{Labels: labels}))
		}
		def := carillon.Definition{Type: "test", Target: carillon.Target{Handler: &carillon.Handler{}}}
		h.must(def.Admit(h.clock.Now()))
		for _, c := range []struct {
			needs   map[string]string
			workers int
		}{{nil, 1000}, {map[string]string{"gpu": "true"}, 3}, {map[string]string{"gpu": "no"}, 0}} {
			def.Needs = c.needs
			job := carillon.Job{Namespace: carillon.DefaultNamespace, ID: 7, Definition: def}
			run := carillon.NewRun(&job, h.clock.Now())
			if slots, coming := n.Free(&run); slots != 1000*c.workers || coming != slots {
				t.Errorf("needs %v: %d slots are free, %d coming", c.needs, slots, coming)
			}
		}
		for _, answer := range answers {
			<-answer
		}
	})
}
