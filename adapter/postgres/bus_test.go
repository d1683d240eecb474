package postgres_test

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/adapter/postgres"
)

// busOf returns a running bus with its own store, as another process would have it.
func busOf(t *testing.T, url string) (*postgres.Bus, *postgres.Store) {
	t.Helper()
	store := open(t, url, postgres.Config{})
	return runBus(
		t,
		postgres.NewBus(store, postgres.BusConfig{
			Every: 10 * time.Millisecond, Logger: slog.New(slog.DiscardHandler),
		}),
	), store
}

func runBus(t *testing.T, bus *postgres.Bus) *postgres.Bus {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- bus.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return bus
}

// heard are the events of a listener.
type heard struct {
	*testing.T
	events <-chan carillon.Event
}

// hear subscribes, and waits until the bus is connected.
func hear(t *testing.T, bus *postgres.Bus, filter carillon.EventFilter) heard {
	t.Helper()
	events, err := bus.Subscribe(t.Context(), filter)
	if err != nil {
		t.Fatal(err)
	}
	h := heard{t, events}
	h.expect(missed)
	return h
}

var missed = carillon.Event{Kind: carillon.EventMissed}

func (h heard) next() carillon.Event {
	h.Helper()
	select {
	case e := <-h.events:
		return e
	case <-time.After(2 * time.Minute):
		h.Fatal("no event came")
		return carillon.Event{}
	}
}

func (h heard) expect(want ...carillon.Event) {
	h.Helper()
	for _, w := range want {
		if diff := cmp.Diff(w, h.next()); diff != "" {
			h.Fatalf("event (-want +got):\n%s", diff)
		}
	}
}

func publish(t *testing.T, bus carillon.Bus, events ...carillon.Event) {
	t.Helper()
	if err := bus.Publish(t.Context(), slices.Values(events)); err != nil {
		t.Fatal(err)
	}
}

func jobEvent(job carillon.JobID) carillon.Event {
	return carillon.Event{Kind: carillon.EventJob, Namespace: "default", Job: job}
}

// waitingRuns commits one-off jobs, each with a waiting run.
func waitingRuns(t *testing.T, store *postgres.Store, jobs ...carillon.JobID) (events []carillon.Event) {
	t.Helper()
	var ids []carillon.RunID
	for _, id := range jobs {
		job := carillon.Job{
			Namespace: "default", ID: id, Version: 1, State: carillon.JobActive, Created: 1, Updated: 1,
		}
		job.Target.Handler, job.Type = &carillon.Handler{}, "test"
		if err := job.Admit(carillon.Now()); err != nil {
			t.Fatal(err)
		}
		run := carillon.NewRun(&job, job.Schedule.At)
		if lost, err := store.Commit(t.Context(), []carillon.Change{
			{Job: &job, Runs: []carillon.Run{run}},
		}); err != nil ||
			len(lost) > 0 {
			t.Fatal(lost, err)
		}
		ids = append(ids, run.ID)
	}
	runs, err := store.Runs(t.Context(), ids, false)
	if err != nil || len(runs) != len(jobs) {
		t.Fatal(runs, err)
	}
	byJob := map[carillon.JobID]carillon.Run{}
	for _, run := range runs {
		byJob[run.ID.Job] = run
	}
	for _, id := range jobs {
		events = append(events, carillon.Event{
			Kind: carillon.EventRun, Namespace: "default", Run: byJob[id], Job: id,
		})
	}
	return events
}

func TestBusDeliversWhatOthersPublish(t *testing.T) {
	url := database(t)
	bus, store := busOf(t, url)
	other, _ := busOf(t, url)
	all := hear(t, other, carillon.EventFilter{})
	runs := waitingRuns(t, store, 1001, 1002)
	ofRun, ofJob := follow(t, other, carillon.EventFilter{
		Run: runs[1].Run.ID,
	}), follow(t, other, carillon.EventFilter{Job: 7})
	elsewhere := follow(t, other, carillon.EventFilter{Namespace: "elsewhere"})

	gone := carillon.RunID{Job: 1003, Due: 5} // not in the store any more
	publish(t, bus, runs[1], runs[0], jobEvent(7), runs[1], carillon.Event{
		Kind: carillon.EventRun, Namespace: "default", Run: carillon.Run{ID: gone},
	})
	all.expect(jobEvent(7), runs[0], runs[1])
	ofRun.expect(runs[1])
	ofJob.expect(jobEvent(7))

	end := carillon.Event{Kind: carillon.EventJob, Namespace: "elsewhere", Job: 9}
	publish(t, bus, end)
	all.expect(end)
	elsewhere.expect(end)
	if n := len(ofRun.events) + len(ofJob.events); n > 0 {
		t.Errorf("%d events too many", n)
	}
}

// follow subscribes to a bus that is already listening, so that it missed nothing.
func follow(t *testing.T, bus *postgres.Bus, filter carillon.EventFilter) heard {
	t.Helper()
	events, err := bus.Subscribe(t.Context(), filter)
	if err != nil {
		t.Fatal(err)
	}
	return heard{t, events}
}

func TestBusLeavesOutItsOwnEvents(t *testing.T) {
	url := database(t)
	bus, _ := busOf(t, url)
	other, _ := busOf(t, url)
	own, others := hear(t, bus, carillon.EventFilter{}), hear(t, other, carillon.EventFilter{})
	publish(t, bus, jobEvent(1))
	others.expect(jobEvent(1))
	publish(t, other, jobEvent(2))
	own.expect(jobEvent(2))
}

func TestBusSaysThatSomethingWasMissedWhereThereIsTooMuchToName(t *testing.T) {
	url := database(t)
	bus, _ := busOf(t, url)
	other, _ := busOf(t, url)
	all := hear(t, other, carillon.EventFilter{})
	ofJob := follow(t, other, carillon.EventFilter{Job: 5})
	for _, many := range []int{3000, 100_000} { // more than a notification holds, more than the bus remembers
		var events []carillon.Event
		for i := range many {
			events = append(events, jobEvent(carillon.JobID(i+1)<<40))
		}
		publish(t, bus, events...)
		all.expect(missed)
		ofJob.expect(missed)
		publish(t, bus, jobEvent(5))
		all.expect(jobEvent(5))
		ofJob.expect(jobEvent(5))
	}
}

func TestBusSaysThatSomethingWasMissedAfterItsConnectionWasLost(t *testing.T) {
	url := database(t)
	bus, _ := busOf(t, url)
	other, _ := busOf(t, url)
	events := hear(t, other, carillon.EventFilter{})
	for i := range carillon.JobID(3) {
		execute(
			t, url,
			`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query = 'LISTEN carillon' AND datname = current_database()`,
		)
		events.expect(missed)
		publish(t, bus, jobEvent(i+1))
		events.expect(jobEvent(i + 1))
	}
}

func TestBusHasAConnectionOnlyWhileItHasListeners(t *testing.T) {
	url := database(t)
	bus, _ := busOf(t, url)
	conn := client(t, url)
	listening := func() (n int) {
		const query = `SELECT count(*) FROM pg_stat_activity WHERE query = 'LISTEN carillon' AND datname = current_database()`
		if err := conn.QueryRow(t.Context(), query).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	for range 2 {
		if n := listening(); n != 0 {
			t.Fatalf("%d connections listen without a listener", n)
		}
		ctx, leave := context.WithCancel(t.Context())
		events, err := bus.Subscribe(ctx, carillon.EventFilter{})
		if err != nil {
			t.Fatal(err)
		}
		heard{t, events}.expect(missed)
		if n := listening(); n != 1 {
			t.Fatalf("%d connections listen", n)
		}
		leave()
		for range events { // until it is closed
		}
		for deadline := time.Now().Add(2 * time.Minute); listening() > 0 && time.Now().Before(deadline); {
		}
	}
}

func TestBusListenerThatIsSlowHearsThatItMissedSomething(t *testing.T) {
	url := database(t)
	bus, _ := busOf(t, url)
	other, _ := busOf(t, url)
	slow := hear(t, other, carillon.EventFilter{})
	last := carillon.JobID(0)
	for range 4 { // each round fills half of the room
		quick := follow(t, other, carillon.EventFilter{})
		var events []carillon.Event
		for range 512 {
			last++
			events = append(events, jobEvent(last))
		}
		publish(t, bus, events...)
		quick.expect(events...)
	}
	for i := range 1024 {
		slow.expect(jobEvent(carillon.JobID(i + 1)))
	}
	slow.expect(missed)
	publish(t, bus, jobEvent(last+1))
	slow.expect(jobEvent(last + 1))
}

func TestBusSendsNothingWhereNothingIsPending(t *testing.T) {
	bus := postgres.NewBus(nil, postgres.BusConfig{})
	publish(t, bus, jobEvent(1))
	if payload, missed := bus.Take(); payload == "" || missed {
		t.Errorf("%q %v", payload, missed)
	}
	if payload, missed := bus.Take(); payload != "" || missed {
		t.Errorf("%q %v", payload, missed)
	}
	publish(t, bus, missed)
	if payload, missed := bus.Take(); payload == "" || !missed {
		t.Errorf("%q %v", payload, missed)
	}
}
