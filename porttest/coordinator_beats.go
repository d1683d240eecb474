package porttest

import (
	"slices"
	"sync"
	"time"

	"github.com/carillon-run/carillon"
)

func coordinatorHolds(t coordinatorTest) {
	t.join(member(1), member(2), member(3))
	held := func(job carillon.JobID, due carillon.Time, fence int64) carillon.Held {
		return carillon.Held{Run: carillon.RunID{Job: job, Due: due}, Fence: fence}
	}
	first := []carillon.Held{
		held(1<<62, epoch, 1), held(7, epoch-100_000, 1<<62|1), held(8, epoch+1, int64(epoch+7)<<20|2),
	}
	t.say(carillon.Beat{ID: member(1).ID, Holds: first}, carillon.Beat{ID: member(2).ID, Holds: first[1:2]})
	same(t, "holds", t.held(member(1), member(2), member(3)), [][]carillon.Held{first, first[1:2], nil})
	t.say(carillon.Beat{ID: member(1).ID, Holds: first[:1]}, carillon.Beat{ID: member(2).ID})
	same(t, "later", t.held(member(1), member(2)), [][]carillon.Held{first[:1], nil})
	first[0].Fence = 9 // the coordinator keeps what was said
	same(t, "of one", t.held(member(1)), [][]carillon.Held{{held(1<<62, epoch, 1)}})
}

func coordinatorLate(t coordinatorTest) {
	t.join(member(1))
	t.age(10 * carillon.SessionTime)
	now := t.now()
	// A call that was sent before an outage is carried out after it.
	for _, expire := range []carillon.Time{0, 1, now - 1000} {
		list, _, err := t.Members(t.Context(), carillon.MemberQuery{Expire: expire})
		if err != nil || len(list) != 1 {
			t.Fatalf("%v, %v", list, err)
		}
	}
	if list, _, err := t.Members(
		t.Context(), carillon.MemberQuery{Expire: now + 60_000},
	); err != nil || len(list) != 0 {
		t.Fatalf("in time: %v, %v", list, err)
	}
}

func coordinatorOld(t coordinatorTest) {
	t.join(member(1), member(2))
	held := func(job carillon.JobID) []carillon.Held {
		return []carillon.Held{{Run: carillon.RunID{Job: job, Due: epoch}, Fence: 1}}
	}
	const old, prolonged = carillon.StandingOld, carillon.StandingProlonged
	say := func(number int64, job carillon.JobID, want carillon.Standing) {
		t.Helper()
		beats := []carillon.Beat{
			{ID: member(1).ID, Number: number, Holds: held(job)},
			{ID: member(2).ID, Number: 10 * number, Holds: held(job)},
		}
		same(t, "standings", t.standings(beats...), []carillon.Standing{want, want})
	}
	say(7, 1, prolonged)
	say(9, 2, prolonged)
	say(8, 3, old)
	say(9, 4, old) // the same once more, by another node
	same(t, "holds after old beats", t.held(member(1), member(2)), [][]carillon.Held{held(2), held(2)})
	say(10, 5, prolonged)
	same(t, "holds after a newer one", t.held(member(1), member(2)), [][]carillon.Held{held(5), held(5)})
	t.say(carillon.Beat{ID: member(1).ID, Holds: held(6)})
	same(t, "holds after one without a number", t.held(member(1)), [][]carillon.Held{held(6)})
	t.age(carillon.SessionTime + time.Second)
	say(3, 7, old)
	t.there(true)
}

func coordinatorNumbers(t coordinatorTest) {
	t.join(member(1), member(2))
	check := func(what string, want ...int64) {
		t.Helper()
		for _, holds := range []bool{false, true} {
			list, _, err := t.Members(t.Context(), carillon.MemberQuery{Holds: holds})
			if err != nil {
				t.Fatal(err)
			}
			var got []int64
			for _, m := range list {
				got = append(got, m.Number, m.Heard)
			}
			same(t, what, got, want)
		}
	}
	say := func(i int, number, heard int64) {
		t.say(carillon.Beat{ID: member(i).ID, Number: number, Heard: heard})
	}
	check("before the first beat", 0, 0, 0, 0)
	say(1, 7, 5)
	check("after a beat", 7, 5, 0, 0)
	say(1, 6, 4)
	say(2, 1<<62, 1<<62-1)
	check("after an old beat, and another member's", 7, 5, 1<<62, 1<<62-1)
	say(1, 0, 0)
	check("after a beat without a number", 7, 0, 1<<62, 1<<62-1)
	say(1, 8, 7)
	check("after a newer one", 8, 7, 1<<62, 1<<62-1)
}

// coordinatorTogether has a node write several beats of one worker at once, in any order: they came by
// different connections.
func coordinatorTogether(t coordinatorTest) {
	const over, old, prolonged = carillon.StandingOver, carillon.StandingOld, carillon.StandingProlonged
	t.join(member(1), member(2), member(3), member(9))
	t.leave(member(9))
	beat := func(i int, number int64, job carillon.JobID) carillon.Beat {
		return carillon.Beat{
			ID: member(i).ID, Number: number,
			Holds: []carillon.Held{{Run: carillon.RunID{Job: job, Due: epoch}, Fence: 1}},
		}
	}
	same(t, "standings", t.standings(
		beat(2, 2, 1), beat(1, 8, 2), beat(9, 2, 3), beat(1, 7, 4), beat(2, 3, 5), beat(9, 1, 6),
		beat(3, 0, 7), beat(2, 1, 8), beat(3, 0, 9),
	), []carillon.Standing{old, prolonged, over, old, prolonged, over, old, old, prolonged})
	same(t, "holds", t.held(member(1), member(2), member(3)), [][]carillon.Held{
		beat(1, 8, 2).Holds, beat(2, 3, 5).Holds, beat(3, 0, 9).Holds,
	})
	same(t, "later", t.standings(beat(1, 7, 1), beat(2, 4, 2), beat(1, 6, 3)), []carillon.Standing{
		old, prolonged, old,
	})
	same(t, "holds later", t.held(member(1), member(2)), [][]carillon.Held{
		beat(1, 8, 2).Holds, beat(2, 4, 2).Holds,
	})
}

func coordinatorMuch(t coordinatorTest) {
	const members, runs = 50, 2000
	rnd := random(t)
	var all []carillon.Member
	var beats []carillon.Beat
	var want [][]carillon.Held
	for i := range members {
		all = append(all, member(i))
		var holds []carillon.Held
		for range runs {
			run := carillon.RunID{
				Job: carillon.JobID(1 + rnd.Int64N(1<<62)), Due: epoch + carillon.Time(rnd.IntN(100_000)),
			}
			holds = append(holds, carillon.Held{Run: run, Fence: 1 + rnd.Int64N(1<<62)})
		}
		beats, want = append(beats, carillon.Beat{ID: member(i).ID, Holds: holds}), append(want, holds)
	}
	t.join(all...)
	for range 2 { // the second time nothing has changed
		same(t, "gone", t.say(beats...), []string(nil))
		// A readable difference would take seconds.
		if got := t.held(all...); !slices.EqualFunc(got, want, slices.Equal[[]carillon.Held]) {
			t.Fatal("they hold something else than they said")
		}
	}
}

func coordinatorBoth(t coordinatorTest) {
	t.join(member(1))
	other := t
	other.Coordinator, other.again = t.again, t.Coordinator
	other.join(member(2))
	t.there(true, member(1), member(2))
	same(t, "gone", other.beat(member(1), member(2)), []string(nil))
	other.leave(member(1))
	same(t, "gone", t.beat(member(1), member(2)), []string{member(1).ID})
}

func coordinatorClock(t coordinatorTest) {
	start := t.now()
	t.join(member(1))
	id := []string{member(1).ID}
	for _, q := range []carillon.MemberQuery{
		{IDs: id}, {IDs: id, Holds: true}, {}, {Holds: true}, {Expire: carillon.Never},
	} {
		before := t.now()
		t.beat(member(1))
		list, now, err := t.Members(t.Context(), q)
		if err != nil || len(list) != 1 || list[0].Beat < before || list[0].Beat > now || now > t.now() ||
			before < start {
			t.Fatalf("started at %d, between %d and %d: %+v %v", start, before, now, list, err)
		}
	}
}

func coordinatorQuery(t coordinatorTest) {
	t.join(member(1), member(2), member(3))
	held := []carillon.Held{{Run: carillon.RunID{Job: 1, Due: epoch}, Fence: 1}}
	t.say(carillon.Beat{ID: member(1).ID, Holds: held}, carillon.Beat{ID: member(3).ID, Holds: held})
	one, three := member(1), member(3)
	one.Holds, three.Holds = held, held
	some := []string{"no such member", member(3).ID, member(1).ID, member(3).ID}
	for _, c := range []struct {
		query carillon.MemberQuery
		want  []carillon.Member
	}{
		{carillon.MemberQuery{}, []carillon.Member{member(1), member(2), member(3)}},
		{carillon.MemberQuery{Holds: true}, []carillon.Member{one, member(2), three}},
		{carillon.MemberQuery{Holds: true, Expire: carillon.Never}, []carillon.Member{one, member(2), three}},
		{carillon.MemberQuery{IDs: some}, []carillon.Member{member(1), member(3)}},
		{carillon.MemberQuery{IDs: some, Holds: true}, []carillon.Member{one, three}},
	} {
		list, _, err := t.again.Members(t.Context(), c.query)
		if err != nil {
			t.Fatalf("members: %v", err)
		}
		for i := range list {
			list[i].Joined, list[i].Beat = 0, 0
		}
		same(t, "members", list, c.want)
	}
}

// coordinatorConcurrent lets some members come and go while others stay. All of them beat for all, in any
// order.
func coordinatorConcurrent(t coordinatorTest) {
	var stay []carillon.Member
	for i := range 20 {
		stay = append(stay, member(i))
	}
	t.join(stay...)
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			c := t
			if g%2 == 1 {
				c.Coordinator = t.again
			}
			for i := range 20 {
				own := member(100 + g*20 + i)
				if err := c.Join(t.Context(), []carillon.Member{own}); err != nil {
					t.Error(err)
				}
				var beats []carillon.Beat
				for j := range stay {
					beats = append(beats, carillon.Beat{ID: stay[(j*(1+2*g)+i)%len(stay)].ID})
				}
				said, err := c.Beat(t.Context(), append(beats, carillon.Beat{ID: own.ID}))
				if err != nil || slices.Contains(said, carillon.StandingOver) {
					t.Errorf("standings %v, %v", said, err)
				}
				expire := carillon.MemberQuery{Expire: carillon.Never}
				if _, _, err := c.Members(t.Context(), expire); err != nil {
					t.Error(err)
				}
				if err := c.Leave(t.Context(), []string{own.ID}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	t.there(true, stay...)
}
