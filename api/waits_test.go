package api_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/api"
	"github.com/carillon-run/carillon/internal/jobjson"
	"github.com/carillon-run/carillon/internal/wire"
)

// lists returns a list of members that a test makes.
func lists(
	list func() ([]carillon.Member, error),
) func(context.Context, carillon.MemberQuery) ([]carillon.Member, carillon.Time, error) {
	return func(context.Context, carillon.MemberQuery) ([]carillon.Member, carillon.Time, error) {
		members, err := list()
		return members, carillon.Now(), err
	}
}

// waits is what the next run of a job waits for.
func (h *house) waits(job string) (kind, text string) {
	h.t.Helper()
	run := h.call("GET", "/v1/jobs/"+job, "").is(200).text("next_run.id")
	a := h.call("GET", "/v1/runs/"+run, "").is(200)
	return a.text("waits_for.kind"), a.text("waits_for.text")
}

func TestARunSaysWhyItWaits(t *testing.T) {
	var members []carillon.Member
	var away error
	h := newHouse(t, func(c *api.Config) {
		c.Members = lists(func() ([]carillon.Member, error) { return members, away })
	})
	first := h.submit(with(`"queue":"mail"`))
	last := h.submit(with(`"queue":"mail"`))
	urgent := h.submit(with(`"queue":"mail","priority":9`))
	h.submit(with(`"queue":"other"`))
	h.claim(h.submit(with(`"queue":"mail"`))) // it waits no longer
	h.submit(schedule(`"at":"2030-01-01T00:00:00Z"`))
	later := h.submit(schedule(`"at":"2031-01-01T00:00:00Z"`))
	is := func(job, kind, text string) {
		t.Helper()
		if k, s := h.waits(job); k != kind || s != text {
			t.Errorf("it waits for %s: %s; want %s: %s", k, s, kind, text)
		}
	}
	is(last, "worker", `no worker is alive to serve the queue "mail"`)
	is(later, "time", "it is due at 2031-01-01T00:00:00.000Z")
	worker := carillon.Member{
		ID: "w1", Kind: carillon.MemberWorker,
		Profile: carillon.Profile{Want: carillon.Want{Queues: []string{"a", "b=2"}}, Slots: 1},
	}
	members = []carillon.Member{worker}
	is(last, "worker", `no live worker serves the queue "mail"; those that are alive serve a, b`)
	members[0].Queues = []string{"mail=3"}
	members[0].Holds = []carillon.Held{{}}
	is(
		urgent, "slot",
		`1 worker serves the queue "mail", and its 1 slot is taken; it is the next of its queue`,
	)
	is(first, "slot", `1 worker serves the queue "mail", and its 1 slot is taken; 1 due run comes before it`)
	is(last, "slot", `1 worker serves the queue "mail", and its 1 slot is taken; 2 due runs come before it`)
	members[0].Holds = nil
	is(
		first, "claim",
		`1 worker serves the queue "mail", with 1 of 1 slots free by its last beat; 1 due run comes before it`,
	)
	away = errors.New("coordinator away")
	is(last, "unknown", "it is due; the list of live workers cannot be read now")
	h.call("POST", "/v1/jobs/"+last+"/pause", "").is(200)
	is(last, "resume", "its job is paused: it waits until the job is resumed")
}

func TestARunInALineSaysBehindWhichOne(t *testing.T) {
	h := newHouse(t, nil)
	job := h.submit(with(`"schedule":{"every":"1h"},"overlap":"queue_all"`))
	running := h.claim(job)
	queued := h.call("POST", "/v1/jobs/"+job+"/run", "").is(201).text("id")
	h.behind(queued)
	a := h.call("GET", "/v1/runs/"+queued, "").is(200)
	want := map[string]any{
		"kind": "turn", "run_id": running.ID.String(), "ahead": 1.0,
		"text": "it waits its turn behind " + running.ID.String() + " of the same job, as number 1 in line",
	}
	if diff := cmp.Diff(want, a.json()["waits_for"]); diff != "" {
		t.Error(diff)
	}
}

// behind makes the scheduler's decision about a due run: the run waits for its turn.
func (h *house) behind(run string) {
	h.t.Helper()
	id, err := carillon.ParseRunID(run)
	if err != nil {
		h.t.Fatal(err)
	}
	ctx := context.Background()
	runs, err1 := h.store.Runs(ctx, []carillon.RunID{id}, false)
	jobs, err2 := h.store.Jobs(ctx, []carillon.JobVersion{{Job: id.Job}})
	guards, err3 := h.store.Guards(ctx, carillon.GuardQuery{
		Namespace: "blue", Keys: []string{id.Job.OverlapKey()},
	})
	if err := errors.Join(err1, err2, err3); err != nil {
		h.t.Fatal(err)
	}
	verdict, change := carillon.Candidate{
		Job: &jobs[0], Run: runs[0], Guards: guards,
	}.Decide(carillon.Now())
	if lost, err := h.store.Commit(ctx, []carillon.Change{change}); verdict != carillon.VerdictWait ||
		err != nil || len(lost) > 0 {
		h.t.Fatal(verdict, lost, err)
	}
}

func TestManyRunsBeforeOneAreCountedUpToABound(t *testing.T) {
	h := newHouse(t, func(c *api.Config) {
		c.Members = lists(func() ([]carillon.Member, error) {
			return []carillon.Member{{ID: "w", Kind: carillon.MemberWorker}}, nil
		})
	})
	h.submitMany(wire.MaxAhead+5, `"priority":6`)
	kind, text := h.waits(h.submit(with(`"priority":5`)))
	if want := `1 worker serves the queue "default"; 1000 or more due runs come before it`; kind != "claim" ||
		text != want {
		t.Errorf("%s: %s", kind, text)
	}
}

func TestRunsOfOtherSharesComeBeforeOneOnlyWithAHigherPriority(t *testing.T) {
	h := newHouse(t, func(c *api.Config) {
		c.Members = lists(func() ([]carillon.Member, error) {
			return []carillon.Member{{ID: "w", Kind: carillon.MemberWorker}}, nil
		})
	})
	h.submitMany(5, `"fair_by":"large"`)
	h.submitMany(2, `"fair_by":"large","priority":6`)
	h.submitMany(1, `"fair_by":"small"`)
	_, text := h.waits(h.submit(with(`"fair_by":"small"`)))
	if want := `1 worker serves the queue "default"; 3 due runs come before it`; text != want {
		t.Error(text)
	}
}

// submitMany submits n equal jobs.
func (h *house) submitMany(n int, fields string) {
	h.t.Helper()
	def, err := jobjson.Define([]byte(with(fields)), carillon.Now())
	if err != nil {
		h.t.Fatal(err)
	}
	defs := make([]carillon.Definition, n)
	for i := range defs {
		defs[i] = def
	}
	if _, err := h.ledger.Submit(context.Background(), "blue", defs); err != nil {
		h.t.Fatal(err)
	}
}

func TestASubmitIntoAQueueThatNoWorkerServesIsTakenWithAWarning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // time stands still: one list of members stays fresh
		heard := []carillon.Member{
			{ID: "w", Kind: carillon.MemberWorker, Profile: carillon.Profile{
				Want: carillon.Want{Queues: []string{"mail"}},
			}},
		}
		present, reads := heard, 0
		h := newHouse(t, func(c *api.Config) {
			c.Alive = func() []carillon.Member { return heard }
			c.Members = lists(func() ([]carillon.Member, error) { reads++; return present, nil })
		})
		submit := func(queue string) []string {
			return h.call(
				"POST", "/v1/jobs", with(fmt.Sprintf(`"queue":%q`, queue)),
			).is(201).Header().Values("Carillon-Warning")
		}
		if got := submit("mail"); got != nil || reads > 0 {
			t.Errorf("a queue that is served: %v, after %d reads", got, reads)
		}
		warning := `no live worker serves the queue "nowhere"; those that are alive serve mail`
		if got := submit("nowhere"); !cmp.Equal(got, []string{warning}) || reads != 1 {
			t.Errorf("warned of %v, after %d reads", got, reads)
		}
		if got := submit("nowhere"); !cmp.Equal(got, []string{warning}) || reads != 1 {
			t.Errorf("at once again: warned of %v, after %d reads", got, reads)
		}
		body := `{"jobs":[` + with(`"queue":"nowhere"`) + "," + with(`"queue":"nowhere"`) + "," +
			with(`"queue":"mail"`) + `]}`
		if got := h.call(
			"POST", "/v1/jobs/batch", body,
		).is(201).Header().Values("Carillon-Warning"); !cmp.Equal(got, []string{warning}) {
			t.Errorf("a batch: warned of %v", got)
		}
		flow := `{"queue":"nowhere","target":{"workflow":{"nodes":[{"name":"a","target":{"wait":{"for":"1h"}}}]}}}`
		if got := h.call("POST", "/v1/jobs", flow).is(201).Header().Values("Carillon-Warning"); got != nil {
			t.Errorf("a workflow needs no worker, but warned of %v", got)
		}
		job := h.submit(schedule(`"at":"2030-01-01T00:00:00Z"`))
		if got := h.call(
			"POST", "/v1/jobs/"+job+"/run", "",
		).is(201).Header().Values("Carillon-Warning"); len(got) != 1 {
			t.Errorf("run now: warned of %v", got)
		}
	})
}

func TestAWarningDoesNotWaitForThatOfAnotherRequest(t *testing.T) {
	second := make(chan struct{})
	var reads atomic.Int32
	h := newHouse(t, func(c *api.Config) {
		c.Alive = func() []carillon.Member { return nil }
		c.Members = lists(func() ([]carillon.Member, error) {
			if reads.Add(1) == 2 {
				close(second)
			}
			<-second // the first read is over only when there is a second one
			return nil, nil
		})
	})
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() { h.submit(echo) })
	}
	both.Wait()
}

func TestAWorkerThatHasJustComeIsNotWarnedOf(t *testing.T) {
	h := newHouse(t, func(c *api.Config) {
		c.Alive = func() []carillon.Member { return nil }
		c.Members = lists(func() ([]carillon.Member, error) {
			return []carillon.Member{{ID: "w", Kind: carillon.MemberWorker}}, nil
		})
	})
	if got := h.call(
		"POST", "/v1/jobs", with(`"name":"a"`),
	).is(201).Header().Values("Carillon-Warning"); got != nil {
		t.Errorf("warned of %v", got)
	}
}
