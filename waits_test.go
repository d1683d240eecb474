package carillon

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestAWaitingRunSaysWhatItWaitsFor(t *testing.T) {
	const now = Time(1_800_000_000_000)
	worker := func(id string, slots int, queues ...string) Member {
		return Member{ID: id, Kind: MemberWorker, Profile: Profile{Want: Want{Queues: queues}, Slots: slots}}
	}
	holding := func(held int, worker Member) Member {
		worker.Holds = make([]Held, held)
		return worker
	}
	node := Member{ID: "node", Kind: MemberNode}
	due := Run{ID: RunID{7, now - 1000}, State: StateWaiting, Queue: "mail", Wake: now - 1000}
	with := func(change func(*Run)) Run {
		run := due
		change(&run)
		return run
	}
	guarded := with(func(r *Run) { r.Flags, r.Wake = FlagGuarded, now+30_000 })
	guard := turns{Holder: now - 5000, Queue: []Time{guarded.ID.Due}}.guard(Guard{Key: "overlap/job"})
	long := turns{
		Holder: now - 5000, Beside: []Time{now - 4500}, Queue: []Time{now - 4000, guarded.ID.Due},
	}.guard(Guard{Key: "overlap/job"})
	n := func(i int) *int { return &i }
	for name, c := range map[string]struct {
		run    Run
		around Surroundings
		want   *Wait
	}{
		"one that is held waits for nothing": {
			with(func(r *Run) { r.State = StateRunning }), Surroundings{}, nil,
		},
		"one of a paused job": {
			with(func(r *Run) { r.Flags, r.Wake = FlagOnHold, Never }),
			Surroundings{},
			&Wait{Kind: WaitResume, Text: "its job is paused: it waits until the job is resumed"},
		},
		"one that is due later": {
			with(func(r *Run) { r.Wake = now + 1000 }),
			Surroundings{},
			&Wait{Kind: WaitTime, Until: now + 1000, Text: "it is due at 2027-01-15T08:00:01.000Z"},
		},
		"one between two attempts": {
			with(func(r *Run) { r.Wake, r.Attempt = now+1000, 1 }),
			Surroundings{},
			&Wait{Kind: WaitTime, Until: now + 1000, Text: "its next attempt is at 2027-01-15T08:00:01.000Z"},
		},
		"one behind another of its job": {
			guarded,
			Surroundings{Guards: Guards{guard}},
			&Wait{
				Kind: WaitTurn, Run: RunID{7, now - 5000}, Ahead: n(1),
				Text: "it waits its turn behind " + RunID{7, now - 5000}.String() +
					" of the same job, as number 1 in line",
			},
		},
		"one behind several others of its job": {
			guarded,
			Surroundings{Guards: Guards{long}},
			&Wait{
				Kind: WaitTurn, Run: RunID{7, now - 5000}, Ahead: n(3),
				Text: "it waits its turn behind " + RunID{7, now - 5000}.String() +
					" of the same job, as number 2 in line",
			},
		},
		"no worker at all": {
			due,
			Surroundings{Members: []Member{node}},
			&Wait{Kind: WaitWorker, Text: `no worker is alive to serve the queue "mail"`},
		},
		"no worker for its queue": {
			due,
			Surroundings{Members: []Member{node, worker("a", 1, "b=2", "a"), worker("b", 1, "a")}},
			&Wait{
				Kind: WaitWorker,
				Text: `no live worker serves the queue "mail"; those that are alive serve a, b`,
			},
		},
		"no worker for its namespace": {
			with(func(r *Run) { r.Namespace = "other" }),
			Surroundings{Members: []Member{node, {
				Kind:    MemberWorker,
				Profile: Profile{Want: Want{Namespaces: []string{"a"}, Queues: []string{"mail"}}},
			}}},
			&Wait{Kind: WaitWorker, Text: `no live worker serves the namespace "other"`},
		},
		"no worker for its kind of target": {
			with(func(r *Run) { r.Needs = ":command" }),
			Surroundings{Members: []Member{node, {
				Kind: MemberWorker, Profile: Profile{Want: Want{Kinds: []string{"http"}}},
			}}},
			&Wait{
				Kind: WaitWorker, Text: `no live worker that serves the queue "mail" can perform command targets`,
			},
		},
		"no worker for its type": {
			with(func(r *Run) { r.Needs = "mail.send" }),
			Surroundings{Members: []Member{node, worker("b", 1, "x"), {
				Kind: MemberWorker, Profile: Profile{Want: Want{Types: []string{"mail.read"}}},
			}}},
			&Wait{
				Kind: WaitWorker,
				Text: `no live worker that serves the queue "mail" has a handler for the type "mail.send"`,
			},
		},
		"the workers are not known": {
			due,
			Surroundings{Blind: true},
			&Wait{Kind: WaitUnknown, Text: "it is due; the list of live workers cannot be read now"},
		},
		"all slots are taken": {
			due,
			Surroundings{
				Members: []Member{
					holding(2, worker("a", 2, "mail=3")), holding(1, worker("b", 1)), worker("c", 9, "x"),
				},
				Ahead: 2,
			},
			&Wait{
				Kind: WaitSlot, Ahead: n(2),
				Text: `2 workers serve the queue "mail", and all 3 slots are taken; 2 due runs come before it`,
			},
		},
		"the only slot is taken": {
			due,
			Surroundings{Members: []Member{holding(1, worker("a", 1))}},
			&Wait{
				Kind: WaitSlot, Ahead: n(0),
				Text: `1 worker serves the queue "mail", and its 1 slot is taken; it is the next of its queue`,
			},
		},
		"a slot is free": {
			due,
			Surroundings{Members: []Member{holding(1, worker("a", 2))}, Ahead: 1},
			&Wait{
				Kind: WaitClaim, Ahead: n(1),
				Text: `1 worker serves the queue "mail", with 1 of 2 slots free by its last beat; 1 due run comes before it`,
			},
		},
		"slots are free, and it is the next": {
			due,
			Surroundings{Members: []Member{holding(1, worker("a", 2)), worker("b", 1)}},
			&Wait{
				Kind: WaitClaim, Ahead: n(0),
				Text: `2 workers serve the queue "mail", with 2 of 3 slots free by their last beats: it starts in a moment`,
			},
		},
		"a worker that does not tell its slots": {
			due,
			Surroundings{
				Members: []Member{holding(1, worker("a", 0)), holding(1, worker("b", 1))}, Ahead: MaxAhead,
			},
			&Wait{
				Kind: WaitClaim, Ahead: n(1000),
				Text: `2 workers serve the queue "mail"; 1000 or more due runs come before it`,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, c.run.WaitsFor(c.around, now)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAHigherPriorityComesBeforeUntilTheOtherHasWaitedLonger(t *testing.T) {
	run := func(priority int8, wake time.Duration) Run {
		return Run{ID: RunID{Job: JobID(priority)}, Priority: priority, Wake: Time(wake.Milliseconds())}
	}
	low := run(4, 0)
	for _, c := range []struct {
		other Run
		want  bool
	}{
		{run(5, AgeStep-time.Millisecond), true},
		{run(5, AgeStep+time.Millisecond), false},
		{run(3, 0), false},
		{run(4, 1), false},
	} {
		if got := c.other.Before(&low); got != c.want {
			t.Errorf("priority %d of %d ms: %v", c.other.Priority, c.other.Wake, got)
		}
	}
}
