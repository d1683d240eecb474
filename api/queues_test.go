package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/adapter/mem"
	"github.com/carillon-run/carillon/api"
	"github.com/carillon-run/carillon/internal/wire"
)

// read reads the answer into a value of its type.
func read[T any](a answer) (v T) {
	a.t.Helper()
	if err := json.Unmarshal(a.Body.Bytes(), &v); err != nil {
		a.t.Fatalf("%v: %s", err, a.Body)
	}
	return v
}

func member(id string, kind string, queues ...string) carillon.Member {
	m := carillon.Member{ID: id, Kind: kind, Addr: "name of " + id}
	m.Queues, m.Slots = queues, 4
	return m
}

func TestAQueueIsShownWithAllThatIsKnownOfIt(t *testing.T) {
	members := []carillon.Member{
		member("worker_1", carillon.MemberWorker),
		member("worker_2", carillon.MemberWorker, "mail=3", "idle"),
		member("worker_3", carillon.MemberWorker, "other"), member("node_1", carillon.MemberNode),
	}
	members[2].Namespaces = []string{"red"}
	h := newHouse(t, func(c *api.Config) {
		c.Members = func(context.Context, carillon.MemberQuery) ([]carillon.Member, carillon.Time, error) {
			return members, 0, nil
		}
	})
	h.call("PUT", "/v1/queues/mail", `{"weight":3}`).is(200)
	h.call("PUT", "/v1/limits/queue/mail", `{"concurrency":2,"rate":"100/m"}`).is(200)
	mail := `{"queue":"mail","overlap":"allow","target":{"command":{"argv":["echo"]}}}`
	h.claim(h.submit(mail))
	waiting := h.submit(mail)
	h.submit(mail)
	paused := h.submit(mail)
	h.call("POST", "/v1/jobs/"+paused+"/pause", "").is(200)
	h.submit(`{"queue":"mail","schedule":{"after":"1h"},"target":{"command":{"argv":["echo"]}}}`)
	h.submit(`{"queue":"a/b","target":{"command":{"argv":["echo"]}}}`)
	parked := h.waiting(h.submit(mail))
	if lost, err := h.ledger.Commit(t.Context(), []carillon.Change{
		parked.Park((&carillon.Limit{Of: carillon.LimitQueue, Key: "mail"}).Hold()),
	}); err != nil || len(lost) > 0 {
		t.Fatal(lost, err)
	}

	got := read[wire.QueueDetail](h.call("GET", "/v1/queues/mail", "").is(200))
	if got.Counted == 0 || got.OldestAge < 0 || got.SetAt == 0 || got.Limit == nil || got.Limit.SetAt == 0 {
		t.Errorf("%+v", got)
	}
	got.Counted, got.OldestAge, got.SetAt, got.Limit.SetAt = 0, 0, 0, 0
	want := wire.QueueDetail{
		Queue: wire.Queue{
			QueueSettings: wire.QueueSettings{Name: "mail", Weight: 3, SetBy: "tester"},
			Limit: &wire.Limit{
				Of: carillon.LimitQueue, Key: "mail", Concurrency: 2, Rate: "100/m", Burst: 1,
				SetBy: "tester",
			},
			Depth: 2, OldestDue: h.waiting(waiting).ID.Due, Running: 1, Paused: 1,
			Held:    []wire.HeldRuns{{By: "limit of queue mail", Runs: 1, OldestDue: parked.ID.Due}},
			Workers: 2, Slots: 8,
		},
		ServedBy: []wire.QueueWorker{
			{ID: "worker_1", Name: "name of worker_1", Slots: 4},
			{ID: "worker_2", Name: "name of worker_2", Slots: 4, Weight: 3},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	var names []string
	for _, q := range read[wire.List[wire.Queue]](h.call("GET", "/v1/queues", "").is(200)).Items {
		names = append(names, q.Name)
	}
	if want := []string{"a/b", "idle", "mail"}; !cmp.Equal(names, want) {
		t.Errorf("listed are %v, want %v", names, want)
	}
	slash := read[wire.QueueDetail](h.call("GET", "/v1/queues/a%2Fb", "").is(200))
	if slash.Name != "a/b" || slash.Depth != 1 || slash.Weight != 1 || slash.Workers != 1 {
		t.Errorf("%+v", slash)
	}
	if q := read[wire.QueueDetail](h.call("GET", "/v1/queues/none", "").is(200)); q.Depth != 0 || q.Weight != 1 {
		t.Errorf("a queue that no job names: %+v", q)
	}
	other := read[wire.QueueDetail](h.call("GET", "/v1/queues/mail", "", "Authorization: Bearer "+otherToken))
	if other.Depth != 0 || other.Running != 0 || other.Weight != 1 || other.Limit != nil {
		t.Errorf("another namespace sees %+v", other)
	}
	if list := read[wire.List[wire.Limit]](
		h.call("GET", "/v1/limits", "", "Authorization: Bearer "+otherToken),
	); len(list.Items) != 0 {
		t.Errorf("another namespace sees the limits %+v", list.Items)
	}
}

// waiting is the run of a job.
func (h *house) waiting(job string) carillon.Run {
	h.t.Helper()
	id, err := carillon.ParseJobID(job)
	if err != nil {
		h.t.Fatal(err)
	}
	page, err := h.store.FindRuns(h.t.Context(), carillon.RunQuery{Namespace: "blue", Job: id, Limit: 1})
	if err != nil || len(page.Runs) != 1 {
		h.t.Fatal(page.Runs, err)
	}
	return page.Runs[0]
}

func TestANamespaceIsShownWithItsWeightAndItsLimit(t *testing.T) {
	h := newHouse(t, nil)
	red := "Authorization: Bearer " + otherToken
	plain := wire.Namespace{Name: "blue", Weight: 1}
	if got := read[wire.Namespace](h.call("GET", "/v1/namespaces/blue", "").is(200)); got != plain {
		t.Errorf("without settings: %+v", got)
	}
	set := read[wire.Namespace](h.call("PUT", "/v1/namespaces/blue", `{"weight":3}`).is(200))
	h.call("PUT", "/v1/namespaces/red", `{"weight":100}`, red).is(200)
	limit := read[wire.Limit](h.call("PUT", "/v1/limits/namespace/blue", `{"concurrency":2}`).is(200))
	if set.SetAt == 0 {
		t.Errorf("set: %+v", set)
	}
	want := wire.Namespace{Name: "blue", Weight: 3, SetBy: "tester", SetAt: set.SetAt}
	if diff := cmp.Diff(want, set); diff != "" {
		t.Errorf("(-want +set):\n%s", diff)
	}
	want.Limit = &limit
	got := read[wire.Namespace](h.call("GET", "/v1/namespaces/blue", "").is(200))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	list := read[wire.List[wire.Namespace]](h.call("GET", "/v1/namespaces", "").is(200))
	if diff := cmp.Diff([]wire.Namespace{want}, list.Items); diff != "" {
		t.Errorf("(-want +listed):\n%s", diff)
	}
	for range 2 { // the default removes the setting, also where there is none
		set := read[wire.Namespace](h.call("PUT", "/v1/namespaces/blue", `{"weight":1}`).is(200))
		if plain.Limit = &limit; !cmp.Equal(set, plain) {
			t.Errorf("removed: %+v", set)
		}
	}
	if got := h.catalog.Now().NamespaceWeights(); !cmp.Equal(got, map[string]int{"red": 100}) {
		t.Errorf("the weights are %v", got)
	}
}

func TestLimitsAreSetListedAndRemoved(t *testing.T) {
	h := newHouse(t, nil)
	for path, body := range map[string]string{
		"/v1/limits/queue/mail":      `{"concurrency":10,"rate":"10/s","burst":20}`,
		"/v1/limits/type/a%2Fb":      `{"rate":"5000/h"}`,
		"/v1/limits/namespace/blue":  `{"concurrency":1000000}`,
		"/v1/limits/queue/other-one": `{"concurrency":1}`,
	} {
		h.call("PUT", path, body).is(200)
	}
	h.call("PUT", "/v1/limits/queue/mail", `{"rate":"20/s"}`).is(200) // in place of all that was there
	items := read[wire.List[wire.Limit]](h.call("GET", "/v1/limits", "").is(200)).Items
	for i := range items {
		if items[i].SetAt == 0 {
			t.Errorf("%+v", items[i])
		}
		items[i].SetAt = 0
	}
	want := []wire.Limit{
		{Of: "namespace", Key: "blue", Concurrency: 1_000_000, SetBy: "tester"},
		{Of: "queue", Key: "mail", Rate: "20/s", Burst: 1, SetBy: "tester"},
		{Of: "queue", Key: "other-one", Concurrency: 1, SetBy: "tester"},
		{Of: "type", Key: "a/b", Rate: "5000/h", Burst: 1, SetBy: "tester"},
	}
	if diff := cmp.Diff(want, items); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	removed := read[wire.Limit](h.call("DELETE", "/v1/limits/type/a%2Fb", "").is(200))
	if removed.Rate != "5000/h" || removed.Key != "a/b" {
		t.Errorf("removed %+v", removed)
	}
	h.call("DELETE", "/v1/limits/type/a%2Fb", "").problem(404, "")
	h.call("DELETE", "/v1/limits/queue/mail", "", "Authorization: Bearer "+otherToken).problem(404, "")
}

func TestSettingsThatAreNotValidAreRefusedByField(t *testing.T) {
	h := newHouse(t, nil)
	for body, field := range map[string]string{
		`{}`: "weight", `{"weight":0}`: "weight", `{"weight":-1}`: "weight", `{"weight":101}`: "weight",
		`{"weight":null}`: "weight", `{"weight":"x"}`: "weight", `{"weight":1.5}`: "weight",
		`{"wieght":3}`: "wieght", `{"weight":1,"weight":2}`: "weight", `[]`: "body", `{"weight":1} x`: "body",
	} {
		h.call("PUT", "/v1/queues/mail", body).problem(400, field)
		h.call("PUT", "/v1/namespaces/blue", body).problem(400, field)
	}
	for body, field := range map[string]string{
		`{}`: "body", `{"concurrency":0}`: "concurrency", `{"concurrency":-1}`: "concurrency",
		`{"concurrency":1000001}`: "concurrency", `{"rate":""}`: "rate", `{"rate":"-1/s"}`: "rate",
		`{"rate":"10"}`: "rate", `{"rate":"10/d"}`: "rate", `{"rate":10}`: "rate", `{"rate":"0/s"}`: "rate",
		`{"burst":5}`: "body", `{"concurrency":1,"burst":5}`: "burst", `{"rate":"1/s","burst":0}`: "burst",
		`{"rate":"1/s","burst":-1}`: "burst", `{"concurrency":1,"weight":1}`: "weight",
	} {
		h.call("PUT", "/v1/limits/queue/mail", body).problem(400, field)
	}
	valid := `{"concurrency":1}`
	for path, field := range map[string]string{
		"/v1/limits/queues/mail": "of", "/v1/limits/key/mail": "of", "/v1/limits/queue/-mail": "key",
		"/v1/limits/queue/m%C3%A4il": "key", "/v1/limits/namespace/red": "key",
	} {
		h.call("PUT", path, valid).problem(400, field)
		h.call("DELETE", path, "").problem(400, field)
	}
	h.call("PUT", "/v1/queues/-mail", `{"weight":1}`).problem(400, "name")
	h.call("GET", "/v1/queues/-mail", "").problem(400, "name")
	h.call("PUT", "/v1/queues/mail", `{"weight":1}`, "Content-Type: text/plain").problem(415, "Content-Type")
	for _, name := range []string{"red", "-blue", "bl%20ue"} {
		h.call("PUT", "/v1/namespaces/"+name, `{"weight":2}`).problem(400, "name")
	}
	h.call("GET", "/v1/namespaces/-blue", "").problem(400, "name")
	h.call("GET", "/v1/namespaces/red", "").problem(404, "")
	h.call("PUT", "/v1/namespaces/blue", `{"weight":2}`, "Content-Type: text/plain").problem(415, "Content-Type")
	now := h.catalog.Now()
	n := len(now.Queues.All("blue")) + len(now.Limits.All("blue"))
	if n += len(now.NamespaceWeights()); n != 0 {
		t.Errorf("%d settings were written", n)
	}
}

func TestASettingWithAKeyIsWrittenOnce(t *testing.T) {
	h := newHouse(t, nil)
	const key = "Idempotency-Key: once"
	first := h.call("PUT", "/v1/queues/mail", `{"weight":3}`, key).is(200).Body.String()
	h.call("PUT", "/v1/queues/mail", `{"weight":4}`).is(200)
	if again := h.call("PUT", "/v1/queues/mail", `{"weight":3}`, key).is(200).Body.String(); again != first {
		t.Errorf("answered %s, and first %s", again, first)
	}
	if got := h.catalog.Now().Queues.Get("blue", "mail"); got.Value.Weight != 4 {
		t.Errorf("the weight is %d", got.Value.Weight)
	}
	h.call("PUT", "/v1/queues/mail", `{"weight":5}`, key).problem(422, "")

	const other = "Idempotency-Key: namespace"
	first = h.call("PUT", "/v1/namespaces/blue", `{"weight":3}`, other).is(200).Body.String()
	h.call("PUT", "/v1/namespaces/blue", `{"weight":4}`).is(200)
	if again := h.call("PUT", "/v1/namespaces/blue", `{"weight":3}`, other).is(200).Body.String(); again != first {
		t.Errorf("answered %s, and first %s", again, first)
	}
	if got := h.catalog.Now().NamespaceWeights()["blue"]; got != 4 {
		t.Errorf("the weight is %d", got)
	}

	h.call("PUT", "/v1/limits/queue/mail", `{"concurrency":1}`).is(200)
	gone := h.call("DELETE", "/v1/limits/queue/mail", "", "Idempotency-Key: gone").is(200).Body.String()
	again := h.call("DELETE", "/v1/limits/queue/mail", "", "Idempotency-Key: gone").is(200).Body.String()
	if gone != again {
		t.Errorf("answered %s, and first %s", again, gone)
	}
}

// slowCounts is a store that takes a second to count.
type slowCounts struct {
	*mem.Store
	calls atomic.Int32
	fail  atomic.Bool
}

func (s *slowCounts) Counts(
	ctx context.Context, namespace string, now carillon.Time,
) ([]carillon.QueueCount, error) {
	s.calls.Add(1)
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if s.fail.Load() {
		return nil, errors.New("away")
	}
	return s.Store.Counts(ctx, namespace, now)
}

func TestAtMostAThirtiethOfTheTimeIsSpentOnCounting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slowCounts{Store: mem.NewStore()}
		h := newHouse(t, func(c *api.Config) { c.Store = store })
		begun := time.Now()
		for time.Since(begun) < 5*time.Minute {
			before := time.Now()
			h.call("GET", "/v1/queues", "").is(200)
			if time.Since(before) == 0 {
				time.Sleep(500 * time.Millisecond)
			}
		}
		if n := store.calls.Load(); n != 10 {
			t.Errorf("%d counts of a second each in five minutes", n)
		}
		h.call("GET", "/v1/queues", "", "Authorization: Bearer "+otherToken).is(200) // has its own count
		if n := store.calls.Load(); n != 11 {
			t.Errorf("%d counts", n)
		}
		time.Sleep(time.Minute)
		store.fail.Store(true)
		h.call("GET", "/v1/queues", "").problem(503, "")
		store.fail.Store(false)
		h.call("GET", "/v1/queues", "").is(200)
	})
}

func TestAServerWithoutACatalogShowsQueuesAndSetsNothing(t *testing.T) {
	h := newHouse(t, func(c *api.Config) { c.Catalog = nil })
	h.submit(echo)
	if list := read[wire.List[wire.Queue]](h.call("GET", "/v1/queues", "").is(200)); len(list.Items) != 1 {
		t.Errorf("%+v", list)
	}
	h.call("GET", "/v1/limits", "").is(200)
	h.call("GET", "/v1/namespaces/blue", "").is(200)
	h.call("PUT", "/v1/queues/mail", `{"weight":1}`).problem(404, "")
	h.call("PUT", "/v1/namespaces/blue", `{"weight":1}`).problem(404, "")
	h.call("PUT", "/v1/limits/queue/mail", `{"concurrency":1}`).problem(404, "")
	h.call("DELETE", "/v1/limits/queue/mail", "").problem(404, "")
}

func TestTheDefaultWeightRemovesTheSetting(t *testing.T) {
	h := newHouse(t, nil)
	h.call("PUT", "/v1/queues/mial", `{"weight":3}`).is(200)
	for range 2 { // also where there is none
		set := h.call("PUT", "/v1/queues/mial", `{"weight":1}`).is(200)
		if set.json()["weight"] != 1.0 || set.json()["set_by"] != nil || set.json()["set_at"] != nil {
			t.Errorf("set: %s", set.Body)
		}
		if list := h.call("GET", "/v1/queues", "").is(200); strings.Contains(list.Body.String(), "mial") {
			t.Errorf("the list has it: %s", list.Body)
		}
	}
}
