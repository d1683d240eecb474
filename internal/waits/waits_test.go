package waits

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/wire"
)

// labeled is what runs of a job carry that needs labels.
func labeled(labels map[string]string) string {
	job := carillon.Job{}
	job.Type, job.Needs, job.Target.Handler = "mail.send", labels, &carillon.Handler{}
	return job.Lane().Needs
}

func TestAWaitingRunSaysWhatItWaitsFor(t *testing.T) {
	const now = carillon.Time(1_800_000_000_000)
	worker := func(id string, slots int, queues ...string) carillon.Member {
		return carillon.Member{
			ID: id, Kind: carillon.MemberWorker,
			Profile: carillon.Profile{Want: carillon.Want{Queues: queues}, Slots: slots},
		}
	}
	holding := func(held int, worker carillon.Member) carillon.Member {
		worker.Holds = make([]carillon.Held, held)
		return worker
	}
	node := carillon.Member{ID: "node", Kind: carillon.MemberNode}
	due := carillon.Run{
		ID: carillon.RunID{Job: 7, Due: now - 1000}, State: carillon.StateWaiting, Queue: "mail",
		Wake: now - 1000,
	}
	with := func(change func(*carillon.Run)) carillon.Run {
		run := due
		change(&run)
		return run
	}
	can := func(want carillon.Want) carillon.Member {
		return carillon.Member{Kind: carillon.MemberWorker, Profile: carillon.Profile{Want: want}}
	}
	guarded := with(func(r *carillon.Run) { r.Flags, r.Wake = carillon.FlagGuarded, now+30_000 })
	line := func(format string, times ...any) carillon.Guards {
		return carillon.Guards{{Key: "overlap/job", Value: fmt.Appendf(nil, format, times...)}}
	}
	short := line(`{"holder":"%s","queue":["%s"]}`, now-5000, guarded.ID.Due)
	long := line(
		`{"holder":"%s","beside":["%s"],"queue":["%s","%s"]}`, now-5000, now-4500, now-4000, guarded.ID.Due,
	)
	n := func(i int) *int { return &i }
	for name, c := range map[string]struct {
		run    carillon.Run
		around Surroundings
		want   *wire.Wait
	}{
		"one that is held waits for nothing": {
			with(func(r *carillon.Run) { r.State = carillon.StateRunning }), Surroundings{}, nil,
		},
		"one of a paused job": {
			with(func(r *carillon.Run) { r.Flags, r.Wake = carillon.FlagOnHold, carillon.Never }),
			Surroundings{},
			&wire.Wait{Kind: wire.WaitResume, Text: "its job is paused: it waits until the job is resumed"},
		},
		"one that is due later": {
			with(func(r *carillon.Run) { r.Wake = now + 1000 }),
			Surroundings{},
			&wire.Wait{Kind: wire.WaitTime, Until: now + 1000, Text: "it is due at 2027-01-15T08:00:01.000Z"},
		},
		"one of a workflow, which needs no worker": {
			with(func(r *carillon.Run) { r.Needs = ":" + carillon.KindWorkflow }),
			Surroundings{},
			&wire.Wait{Kind: wire.WaitClaim, Text: "it is due, and needs no worker: it starts in a moment"},
		},
		"one between two attempts": {
			with(func(r *carillon.Run) { r.Wake, r.Attempt = now+1000, 1 }),
			Surroundings{},
			&wire.Wait{Kind: wire.WaitTime, Until: now + 1000, Text: "its next attempt is at 2027-01-15T08:00:01.000Z"},
		},
		"one behind another of its job": {
			guarded,
			Surroundings{Guards: short},
			&wire.Wait{
				Kind: wire.WaitTurn, Run: carillon.RunID{Job: 7, Due: now - 5000}, Ahead: n(1),
				Text: "it waits its turn behind " + carillon.RunID{Job: 7, Due: now - 5000}.String() +
					" of the same job, as number 1 in line",
			},
		},
		"one behind several others of its job": {
			guarded,
			Surroundings{Guards: long},
			&wire.Wait{
				Kind: wire.WaitTurn, Run: carillon.RunID{Job: 7, Due: now - 5000}, Ahead: n(3),
				Text: "it waits its turn behind " + carillon.RunID{Job: 7, Due: now - 5000}.String() +
					" of the same job, as number 2 in line",
			},
		},
		"no worker at all": {
			due,
			Surroundings{Members: []carillon.Member{node}},
			&wire.Wait{Kind: wire.WaitWorker, Text: `no worker is alive to serve the queue "mail"`},
		},
		"no worker for its queue": {
			due,
			Surroundings{Members: []carillon.Member{
				node, worker("a", 1, "b=2", "a"), worker("b", 1, "a"),
			}},
			&wire.Wait{
				Kind: wire.WaitWorker,
				Text: `no live worker serves the queue "mail"; those that are alive serve a, b`,
			},
		},
		"no worker for its namespace": {
			with(func(r *carillon.Run) { r.Namespace = "other" }),
			Surroundings{Members: []carillon.Member{
				node, can(carillon.Want{Namespaces: []string{"a"}, Queues: []string{"mail"}}),
			}},
			&wire.Wait{Kind: wire.WaitWorker, Text: `no live worker serves the namespace "other"`},
		},
		"no worker for its kind of target": {
			with(func(r *carillon.Run) { r.Needs = ":command" }),
			Surroundings{Members: []carillon.Member{node, can(carillon.Want{Kinds: []string{"http"}})}},
			&wire.Wait{
				Kind: wire.WaitWorker, Text: `no live worker that serves the queue "mail" can perform command targets`,
			},
		},
		"no worker for its type": {
			with(func(r *carillon.Run) { r.Needs = "mail.send" }),
			Surroundings{Members: []carillon.Member{
				node, worker("b", 1, "x"), can(carillon.Want{Types: []string{"mail.read"}}),
			}},
			&wire.Wait{
				Kind: wire.WaitWorker,
				Text: `no live worker that serves the queue "mail" has a handler for the type "mail.send"`,
			},
		},
		"no worker with its label": {
			with(func(r *carillon.Run) { r.Needs = labeled(map[string]string{"gpu": "true", "zone": "eu"}) }),
			Surroundings{Members: []carillon.Member{
				can(carillon.Want{Labels: map[string]string{"zone": "eu", "gpu": "false"}}),
				can(carillon.Want{}), worker("b", 1, "x"), can(carillon.Want{Types: []string{"mail.read"}}),
			}},
			&wire.Wait{
				Kind: wire.WaitWorker,
				Text: `no live worker that serves the queue "mail" has the label gpu=true; 2 workers serve it`,
			},
		},
		"no worker with any of its labels": {
			with(func(r *carillon.Run) { r.Needs = labeled(map[string]string{"gpu": "true", "zone": "eu"}) }),
			Surroundings{Members: []carillon.Member{worker("a", 1, "mail=2")}},
			&wire.Wait{
				Kind: wire.WaitWorker,
				Text: `no live worker that serves the queue "mail" has the labels gpu=true, zone=eu; ` +
					`1 worker serves it`,
			},
		},
		"no worker with all of its labels": {
			with(func(r *carillon.Run) { r.Needs = labeled(map[string]string{"gpu": "true", "zone": "eu"}) }),
			Surroundings{Members: []carillon.Member{
				can(carillon.Want{Labels: map[string]string{"zone": "eu"}}),
				can(carillon.Want{Labels: map[string]string{"gpu": "true"}}),
			}},
			&wire.Wait{
				Kind: wire.WaitWorker,
				Text: `no live worker that serves the queue "mail" has all of the labels ` +
					`gpu=true, zone=eu; 2 workers serve it`,
			},
		},
		"neither its type nor its label": {
			with(func(r *carillon.Run) { r.Needs = labeled(map[string]string{"gpu": "true"}) }),
			Surroundings{Members: []carillon.Member{can(carillon.Want{Types: []string{"mail.read"}})}},
			&wire.Wait{
				Kind: wire.WaitWorker,
				Text: `no live worker that serves the queue "mail" has a handler for the type "mail.send"`,
			},
		},
		"a worker with its label": {
			with(func(r *carillon.Run) { r.Needs = labeled(map[string]string{"gpu": "true"}) }),
			Surroundings{Members: []carillon.Member{
				can(carillon.Want{Labels: map[string]string{"zone": "eu", "gpu": "true"}}),
				can(carillon.Want{}),
			}},
			&wire.Wait{Kind: wire.WaitClaim, Ahead: n(0), Text: `1 worker serves the queue "mail"`},
		},
		"the workers are not known": {
			due,
			Surroundings{Blind: true},
			&wire.Wait{Kind: wire.WaitUnknown, Text: "it is due; the list of live workers cannot be read now"},
		},
		"all slots are taken": {
			due,
			Surroundings{
				Members: []carillon.Member{
					holding(2, worker("a", 2, "mail=3")), holding(1, worker("b", 1)), worker("c", 9, "x"),
				},
				Ahead: 2,
			},
			&wire.Wait{
				Kind: wire.WaitSlot, Ahead: n(2),
				Text: `2 workers serve the queue "mail", and all 3 slots are taken; 2 due runs come before it`,
			},
		},
		"the only slot is taken": {
			due,
			Surroundings{Members: []carillon.Member{holding(1, worker("a", 1))}},
			&wire.Wait{
				Kind: wire.WaitSlot, Ahead: n(0),
				Text: `1 worker serves the queue "mail", and its 1 slot is taken; it is the next of its queue`,
			},
		},
		"a slot is free": {
			due,
			Surroundings{Members: []carillon.Member{holding(1, worker("a", 2))}, Ahead: 1},
			&wire.Wait{
				Kind: wire.WaitClaim, Ahead: n(1),
				Text: `1 worker serves the queue "mail", with 1 of 2 slots free by its last beat; 1 due run comes before it`,
			},
		},
		"slots are free, and it is the next": {
			due,
			Surroundings{Members: []carillon.Member{holding(1, worker("a", 2)), worker("b", 1)}},
			&wire.Wait{
				Kind: wire.WaitClaim, Ahead: n(0),
				Text: `2 workers serve the queue "mail", with 2 of 3 slots free by their last beats: it starts in a moment`,
			},
		},
		"a worker that does not tell its slots": {
			due,
			Surroundings{
				Members: []carillon.Member{holding(1, worker("a", 0)), holding(1, worker("b", 1))},
				Ahead:   wire.MaxAhead,
			},
			&wire.Wait{
				Kind: wire.WaitClaim, Ahead: n(1000),
				Text: `2 workers serve the queue "mail"; 1000 or more due runs come before it`,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, For(&c.run, c.around, now)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
