package mem_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/adapter/mem"
	"github.com/carillon-run/carillon/porttest"
)

func TestBus(t *testing.T) {
	porttest.Bus(t, func(*testing.T) carillon.Bus { return mem.NewBus() })
}

func TestBusWithoutListenersCostsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := mem.NewBus()
		events := func(func(carillon.Event) bool) { t.Error("an event was made that no listener gets") }
		ctx, cancel := context.WithCancel(t.Context())
		if _, err := bus.Subscribe(ctx, carillon.EventFilter{}); err != nil || !bus.Listening() {
			t.Fatal("the bus has no listener", err)
		}
		cancel()
		synctest.Wait()
		if bus.Listening() {
			t.Fatal("the bus still has a listener")
		}
		if n := testing.AllocsPerRun(100, func() { _ = bus.Publish(t.Context(), events) }); n != 0 {
			t.Errorf("%v allocations", n)
		}
	})
}

func TestMissedStandsWhereTheGapIs(t *testing.T) {
	bus := mem.NewBus()
	events, err := bus.Subscribe(t.Context(), carillon.EventFilter{})
	if err != nil {
		t.Fatal(err)
	}
	all := make([]carillon.Event, 3000)
	for i := range all {
		all[i] = carillon.Event{Kind: carillon.EventJob, Job: carillon.JobID(i + 1)}
	}
	if err := bus.Publish(t.Context(), slices.Values(all)); err != nil {
		t.Fatal(err)
	}
	for i := range 1024 {
		if e := <-events; e.Job != all[i].Job {
			t.Fatalf("event %d is %+v", i, e)
		}
	}
	if e := <-events; e.Kind != carillon.EventMissed {
		t.Fatalf("%+v", e)
	}
	if len(events) != 0 {
		t.Fatalf("%d more", len(events))
	}
}

func BenchmarkBus(b *testing.B) {
	events := make([]carillon.Event, 100)
	b.Run("no listener", func(b *testing.B) {
		bus := mem.NewBus()
		for b.Loop() {
			_ = bus.Publish(b.Context(), slices.Values(events))
		}
	})
	b.Run("one listens to all, 100 events", func(b *testing.B) {
		bus := mem.NewBus()
		got, _ := bus.Subscribe(b.Context(), carillon.EventFilter{})
		for b.Loop() {
			_ = bus.Publish(b.Context(), slices.Values(events))
			for range events {
				<-got
			}
		}
	})
	b.Run("one listens to another job, 100 events", func(b *testing.B) {
		bus := mem.NewBus()
		_, _ = bus.Subscribe(b.Context(), carillon.EventFilter{Job: 99})
		for b.Loop() {
			_ = bus.Publish(b.Context(), slices.Values(events))
		}
	})
}
