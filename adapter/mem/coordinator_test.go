package mem_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/adapter/mem"
	"github.com/carillon-run/carillon/porttest"
)

func TestCoordinator(t *testing.T) {
	porttest.Coordinator(t, porttest.CoordinatorTest{
		Open:   func(*testing.T) carillon.Coordinator { return mem.NewCoordinator() },
		Age:    func(_ *testing.T, _ carillon.Coordinator, by time.Duration) { time.Sleep(by) },
		Bubble: true,
	})
}

func TestWhoDialedInToTheProcessBeforeIsTakenInForASessionsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := mem.NewCoordinator()
		beat := func(id string) bool {
			standings, err := c.Beat(t.Context(), []carillon.Beat{{ID: id}})
			if err != nil {
				t.Fatal(err)
			}
			return standings[0] == carillon.StandingProlonged
		}
		const early, late = "worker_00112233445566778899", "worker_aabbccddeeff00112233"
		if !beat(early) {
			t.Error("a worker of before is refused")
		}
		time.Sleep(carillon.SessionTime)
		if beat(late) {
			t.Error("one who was silent for too long is taken in")
		}
		if !beat(early) {
			t.Error("the one who was taken in is forgotten")
		}
	})
}

func TestAnIDThatNoServerGivesOutIsNotTakenInAfterAStart(t *testing.T) {
	c := mem.NewCoordinator()
	ids := []string{
		"", "madeup", "worker_", "worker_early", "worker_0011223344556677889", "worker_001122334455667788990",
		"worker_0011223344556677889G", "worker_AABBCCDDEEFF00112233", "node_00112233445566778899",
		"inner_00112233445566778899",
	}
	for _, id := range ids {
		standings, err := c.Beat(t.Context(), []carillon.Beat{{ID: id}})
		if err != nil || standings[0] != carillon.StandingOver {
			t.Errorf("%q: %v, %v; want that its session is over", id, standings, err)
		}
	}
	if members, _, err := c.Members(t.Context(), carillon.MemberQuery{}); err != nil || len(members) != 0 {
		t.Errorf("members %v, %v; want none", members, err)
	}
}

func TestSessionsAreMeasuredByTimeThatCannotBeSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, clock := mem.NewCoordinator(), &carillon.Clock{}
		c.Clock = clock
		worker := carillon.Member{ID: "worker_a", Kind: carillon.MemberWorker}
		if err := c.Join(t.Context(), []carillon.Member{worker}); err != nil {
			t.Fatal(err)
		}
		there := func() bool {
			list, _, err := c.Members(t.Context(), carillon.MemberQuery{Expire: carillon.Never})
			if err != nil {
				t.Fatal(err)
			}
			return len(list) == 1 && list[0].ID == worker.ID
		}
		for _, ahead := range []time.Duration{time.Hour, -time.Hour} {
			clock.SetAhead(ahead)
			time.Sleep(time.Second)
			if !there() {
				t.Fatalf("the session is over because the clock was set by %s", ahead)
			}
		}
		time.Sleep(carillon.SessionTime)
		if there() {
			t.Error("a clock that was set back keeps a session without beats")
		}
	})
}
