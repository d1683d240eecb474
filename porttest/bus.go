package porttest

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/carillon-run/carillon"
)

// Bus checks what carillon.Bus promises. open returns a bus without listeners.
func Bus(t *testing.T, open func(t *testing.T) carillon.Bus) {
	run := func(name string, f func(busTest)) {
		t.Run(name, func(t *testing.T) { f(busTest{t, open(t)}) })
	}
	run("an event reaches everybody who listens, whole and once", busEverybody)
	run("publishing without a listener is no error", busAlone)
	run("a filter lets through what it names", busFilter)
	run("delivery ends with the context, and the channel is closed", busEnds)
	run("a slow listener holds no other up, loses events and gets one missed for each gap", busSlow)
	run("listeners come and go while others publish", busConcurrent)
}

// busTest is a bus whose calls must not fail.
type busTest struct {
	testing.TB
	carillon.Bus
}

func (t busTest) publish(events ...carillon.Event) {
	t.Helper()
	if err := t.Publish(t.Context(), slices.Values(events)); err != nil {
		t.Fatalf("publish: %v", err)
	}
}

func (t busTest) listen(ctx context.Context, f carillon.EventFilter) <-chan carillon.Event {
	t.Helper()
	events, err := t.Subscribe(ctx, f)
	if err != nil {
		t.Fatalf("subscribe: %v", err)
	}
	return events
}

// next waits for an event.
func (t busTest) next(events <-chan carillon.Event) carillon.Event {
	t.Helper()
	select {
	case e, open := <-events:
		if !open {
			t.Fatal("the channel was closed")
		}
		return e
	case <-patient(t).Done():
		t.Fatal("no event came")
	}
	panic("unreachable")
}

func runEvent(r carillon.Run) carillon.Event {
	return carillon.Event{Kind: carillon.EventRun, Namespace: r.Namespace, Run: r, Job: r.ID.Job}
}

func jobEvent(job carillon.JobID) carillon.Event {
	return carillon.Event{Kind: carillon.EventJob, Namespace: "default", Job: job}
}

func busEverybody(t busTest) {
	first, second := t.listen(
		t.Context(), carillon.EventFilter{},
	), t.listen(t.Context(), carillon.EventFilter{})
	want := []carillon.Event{runEvent(sample(1, epoch)), jobEvent(7), runEvent(sample(2, epoch))}
	t.publish(want[:2]...)
	t.publish(want[2])
	for _, events := range []<-chan carillon.Event{first, second} {
		for _, w := range want {
			same(t, "event", t.next(events), w)
		}
	}
}

func busAlone(t busTest) {
	t.publish(jobEvent(1), jobEvent(2))
	t.publish()
	events := t.listen(t.Context(), carillon.EventFilter{})
	t.publish(jobEvent(3))
	same(t, "the first event after listening", t.next(events), jobEvent(3))
}

func busFilter(t busTest) {
	elsewhere, later := sample(1, epoch), sample(1, epoch)
	elsewhere.Namespace, elsewhere.ID.Job = "other", 5
	later.ID.Due++
	all := []carillon.Event{
		runEvent(sample(1, epoch)), runEvent(sample(2, epoch)), runEvent(elsewhere), runEvent(later),
		jobEvent(1), jobEvent(2),
	}
	end := runEvent(sample(1, epoch)) // passes every filter but the one for the other namespace
	end.Run.Reason = "end"
	for name, c := range map[string]struct {
		filter carillon.EventFilter
		want   []int
	}{
		"namespace": {carillon.EventFilter{Namespace: "default"}, []int{0, 1, 3, 4, 5}},
		"job":       {carillon.EventFilter{Job: 1}, []int{0, 3, 4}},
		"run":       {carillon.EventFilter{Run: sample(1, 0).ID}, []int{0}},
		"two":       {carillon.EventFilter{Namespace: "default", Job: 1, Run: later.ID}, []int{3}},
		"none":      {carillon.EventFilter{}, []int{0, 1, 2, 3, 4, 5}},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		events := t.listen(ctx, c.filter)
		t.publish(all...)
		for _, i := range c.want {
			same(t, name, t.next(events), all[i])
		}
		if name != "two" {
			t.publish(end)
			same(t, name+" and no more", t.next(events), end)
		}
		cancel()
	}
}

func busEnds(t busTest) {
	ctx, cancel := context.WithCancel(t.Context())
	events := t.listen(ctx, carillon.EventFilter{})
	t.publish(jobEvent(1))
	cancel()
	for { // events on their way may still come
		select {
		case _, open := <-events:
			if !open {
				t.publish(jobEvent(2))
				return
			}
		case <-patient(t).Done():
			t.Fatal("the channel was not closed")
		}
	}
}

// busSlow numbers events and reads nothing until many are published. It does that twice.
func busSlow(t busTest) {
	const many = 10_000
	slow, other := t.listen(
		t.Context(), carillon.EventFilter{},
	), t.listen(t.Context(), carillon.EventFilter{})
	var published, last carillon.JobID
	for range 2 {
		for range many {
			published++
			t.publish(jobEvent(published))
			t.next(other)
		}
		last, published = busCatchUp(t, slow, last, published)
		for range published - last {
			t.next(slow)
		}
		last = published
		for len(other) > 0 {
			t.next(other)
		}
	}
}

// busCatchUp reads on from last, and publishes whenever there is nothing more to read, until an event comes
// that was published meanwhile. Where numbers are missing, the bus must have sent missed, once, and nowhere
// else.
func busCatchUp(t busTest, slow <-chan carillon.Event, last, published carillon.JobID) (_, _ carillon.JobID) {
	missed := false
	for old := published; last <= old; {
		if len(slow) == 0 {
			published++
			t.publish(jobEvent(published))
		}
		e := t.next(slow)
		if e.Kind == carillon.EventMissed {
			if missed {
				t.Fatalf("missed twice after event %d", last)
			}
			missed = true
			continue
		}
		if gap := e.Job != last+1; gap != missed {
			t.Fatalf("event %d came after %d; missed was told: %v", e.Job, last, missed)
		}
		last, missed = e.Job, false
	}
	return last, published
}

func busConcurrent(t busTest) {
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for i := range 200 {
				if err := t.Publish(t.Context(), slices.Values([]carillon.Event{
					jobEvent(carillon.JobID(i + 1)),
				})); err != nil {
					t.Error(err)
				}
			}
		})
		all.Go(func() {
			for range 50 {
				ctx, cancel := context.WithCancel(t.Context())
				events, err := t.Subscribe(ctx, carillon.EventFilter{})
				if err != nil {
					t.Error(err)
				}
				go cancel()
				for range events { // ends when it is closed
				}
			}
		})
	}
	all.Wait()
}
