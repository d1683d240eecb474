package porttest

import (
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon-run/carillon"
)

// CoordinatorTest is what the suite Coordinator needs to check a coordinator.
type CoordinatorTest struct {
	// Open returns a coordinator without members.
	Open func(t *testing.T) carillon.Coordinator
	// Again returns another coordinator with the same members, as another node would have it. Default: the
	// same one.
	Again func(t *testing.T, c carillon.Coordinator) carillon.Coordinator
	// Age lets so much time pass for every present session.
	Age func(t *testing.T, c carillon.Coordinator, by time.Duration)
	// Bubble runs every case in a bubble of testing/synctest, for coordinators that use the clock of the
	// process.
	Bubble bool
}

// Coordinator checks what carillon.Coordinator promises.
func Coordinator(t *testing.T, c CoordinatorTest) {
	run := func(name string, f func(coordinatorTest)) {
		t.Run(name, func(t *testing.T) {
			if c.Bubble {
				synctest.Test(t, func(t *testing.T) { f(c.open(t)) })
			} else {
				f(c.open(t))
			}
		})
	}
	run("at first nobody is there", coordinatorNobody)
	run("a member comes whole, and the list is in the order of ids", coordinatorJoin)
	run("what members tell about themselves comes back, with the time at which they joined", coordinatorProfile)
	run("an id that is there already does not join again", coordinatorTwice)
	run("a member is gone after leave, and the others stay", coordinatorLeave)
	run("who beats stays, who does not is ended by the first who asks for it", coordinatorExpire)
	run("time alone ends no session: after an outage everybody goes on", coordinatorOutage)
	run("who asks too late ends no session", coordinatorLate)
	run("a beat of the gone is told so, and does not bring them back", coordinatorGone)
	run("what members hold comes back as they said it with their last beat", coordinatorHolds)
	run("a beat that was held up on its way says nothing any more", coordinatorOld)
	run("of several beats of a member at once the one with the highest number counts", coordinatorTogether)
	run("many hold much", coordinatorMuch)
	run("two coordinators see each other's members", coordinatorBoth)
	run("the clock goes forward, and beats are by it", coordinatorClock)
	run("many use it at once", coordinatorConcurrent)
}

// coordinatorTest is a coordinator whose calls must not fail.
type coordinatorTest struct {
	*testing.T
	carillon.Coordinator
	again carillon.Coordinator
	age   func(by time.Duration)
}

func (c CoordinatorTest) open(t *testing.T) coordinatorTest {
	first := c.Open(t)
	test := coordinatorTest{t, first, first, func(by time.Duration) { c.Age(t, first, by) }}
	if c.Again != nil {
		test.again = c.Again(t, first)
	}
	return test
}

func (t coordinatorTest) join(members ...carillon.Member) {
	t.Helper()
	if err := t.Join(t.Context(), members); err != nil {
		t.Fatalf("join: %v", err)
	}
}

func (t coordinatorTest) leave(members ...carillon.Member) {
	t.Helper()
	if err := t.Leave(t.Context(), memberIDs(members)); err != nil {
		t.Fatalf("leave: %v", err)
	}
}

// beat beats for members that hold nothing, and returns the members that are gone.
func (t coordinatorTest) beat(members ...carillon.Member) []string {
	t.Helper()
	var beats []carillon.Beat
	for _, m := range members {
		beats = append(beats, carillon.Beat{ID: m.ID})
	}
	return t.say(beats...)
}

func (t coordinatorTest) say(beats ...carillon.Beat) (gone []string) {
	t.Helper()
	for i, standing := range t.standings(beats...) {
		if standing == carillon.StandingOver {
			gone = append(gone, beats[i].ID)
		}
	}
	slices.Sort(gone)
	return gone
}

// standings returns the answer to each beat.
func (t coordinatorTest) standings(beats ...carillon.Beat) []carillon.Standing {
	t.Helper()
	standings, err := t.Beat(t.Context(), beats)
	if err != nil || len(standings) != len(beats) {
		t.Fatalf("%d answers to %d beats: %v", len(standings), len(beats), err)
	}
	return standings
}

// there compares the list of members.
func (t coordinatorTest) there(expire bool, want ...carillon.Member) {
	t.Helper()
	for _, c := range []carillon.Coordinator{t.Coordinator, t.again} {
		until := carillon.Time(0)
		if expire {
			until = carillon.Never
		}
		got, err := c.Members(t.Context(), until)
		if err != nil {
			t.Fatalf("members: %v", err)
		}
		for i := range got {
			got[i].Joined, got[i].Beat = 0, 0 // coordinatorProfile checks them
		}
		if !slices.EqualFunc(got, want, func(a, b carillon.Member) bool { return reflect.DeepEqual(a, b) }) {
			t.Fatalf("members are %+v, want %+v", got, want)
		}
	}
}

// held returns what members said they hold, in the order of their ids.
func (t coordinatorTest) held(members ...carillon.Member) (runs [][]carillon.Held) {
	t.Helper()
	list, err := t.again.Holds(t.Context(), memberIDs(members))
	if err != nil {
		t.Fatalf("holds: %v", err)
	}
	slices.SortFunc(list, func(a, b carillon.Holding) int { return slices.Compare([]byte(a.ID), []byte(b.ID)) })
	for _, h := range list {
		runs = append(runs, h.Runs)
	}
	return runs
}

func member(i int) carillon.Member {
	return carillon.Member{ID: fmt.Sprintf("member-%03d", i), Kind: carillon.MemberWorker, Addr: fmt.Sprintf("10.0.0.%d:7000", i)}
}

func memberIDs(members []carillon.Member) (ids []string) {
	for _, m := range members {
		ids = append(ids, m.ID)
	}
	return ids
}

func coordinatorNobody(t coordinatorTest) {
	t.there(false)
	t.there(true)
	t.join()
	t.leave()
	same(t, "gone", t.beat(), []string(nil))
	same(t, "holds of nobody", t.held(), [][]carillon.Held(nil))
	same(t, "holds of who is not there", t.held(member(1)), [][]carillon.Held(nil))
}

func coordinatorLeave(t coordinatorTest) {
	t.join(member(1), member(2), member(3))
	t.leave(member(2), member(4))
	t.there(false, member(1), member(3))
	t.leave(member(2))
	t.leave(member(1), member(3))
	t.there(false)
}

func coordinatorExpire(t coordinatorTest) {
	t.join(member(1), member(2), member(3))
	t.age(carillon.SessionTime - time.Second)
	t.there(true, member(1), member(2), member(3))
	same(t, "gone", t.beat(member(2)), []string(nil))
	t.age(2 * time.Second)
	t.there(false, member(1), member(2), member(3))
	t.there(true, member(2))
	t.there(false, member(2))
}

func coordinatorOutage(t coordinatorTest) {
	t.join(member(1), member(2))
	t.age(time.Hour)
	t.there(false, member(1), member(2))
	same(t, "gone", t.beat(member(1), member(2)), []string(nil))
	t.there(true, member(1), member(2))
}

func coordinatorGone(t coordinatorTest) {
	t.join(member(1), member(2), member(3))
	t.leave(member(1))
	t.age(2 * carillon.SessionTime)
	same(t, "gone", t.beat(member(2)), []string(nil))
	t.there(true, member(2))
	for range 2 {
		same(t, "gone", t.beat(member(1), member(2), member(3), member(9)), memberIDs([]carillon.Member{member(1), member(3), member(9)}))
		t.there(false, member(2))
	}
	same(t, "holds", t.held(member(1), member(2), member(3)), [][]carillon.Held{nil})
}

func coordinatorHolds(t coordinatorTest) {
	t.join(member(1), member(2), member(3))
	held := func(job carillon.JobID, due carillon.Time, fence int64) carillon.Held {
		return carillon.Held{Run: carillon.RunID{Job: job, Due: due}, Fence: fence}
	}
	first := []carillon.Held{held(1<<62, epoch, 1), held(7, epoch-100_000, 1<<62|1), held(8, epoch+1, int64(epoch+7)<<20|2)}
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
	now, err := t.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// A call that was sent before an outage is carried out after it.
	for _, expire := range []carillon.Time{0, 1, now - 1000} {
		list, err := t.Members(t.Context(), expire)
		if err != nil || len(list) != 1 {
			t.Fatalf("%v, %v", list, err)
		}
	}
	if list, err := t.Members(t.Context(), now+60_000); err != nil || len(list) != 0 {
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
		beats := []carillon.Beat{{ID: member(1).ID, Number: number, Holds: held(job)}, {ID: member(2).ID, Number: 10 * number, Holds: held(job)}}
		same(t, "standings", t.standings(beats...), []carillon.Standing{want, want})
	}
	say(7, 1, prolonged)
	say(9, 2, prolonged)
	say(8, 3, old)
	same(t, "gone after a beat that is repeated", t.say(carillon.Beat{ID: member(1).ID, Number: 9, Holds: held(4)}), []string(nil))
	same(t, "holds after old beats", t.held(member(1), member(2)), [][]carillon.Held{held(2), held(2)})
	say(10, 5, prolonged)
	same(t, "holds after a newer one", t.held(member(1), member(2)), [][]carillon.Held{held(5), held(5)})
	t.say(carillon.Beat{ID: member(1).ID, Holds: held(6)})
	same(t, "holds after one without a number", t.held(member(1)), [][]carillon.Held{held(6)})
	t.age(carillon.SessionTime + time.Second)
	say(3, 7, old)
	t.there(true)
}

// coordinatorTogether has a node write several beats of one worker at once, in any order: they came by
// different connections.
func coordinatorTogether(t coordinatorTest) {
	const over, old, prolonged = carillon.StandingOver, carillon.StandingOld, carillon.StandingProlonged
	t.join(member(1), member(2), member(3), member(9))
	t.leave(member(9))
	beat := func(i int, number int64, job carillon.JobID) carillon.Beat {
		return carillon.Beat{ID: member(i).ID, Number: number, Holds: []carillon.Held{{Run: carillon.RunID{Job: job, Due: epoch}, Fence: 1}}}
	}
	same(t, "standings", t.standings(
		beat(2, 2, 1), beat(1, 8, 2), beat(9, 2, 3), beat(1, 7, 4), beat(2, 3, 5), beat(9, 1, 6), beat(3, 0, 7), beat(2, 1, 8), beat(3, 0, 9),
	), []carillon.Standing{old, prolonged, over, old, prolonged, over, old, old, prolonged})
	same(t, "holds", t.held(member(1), member(2), member(3)), [][]carillon.Held{beat(1, 8, 2).Holds, beat(2, 3, 5).Holds, beat(3, 0, 9).Holds})
	same(t, "later", t.standings(beat(1, 7, 1), beat(2, 4, 2), beat(1, 6, 3)), []carillon.Standing{old, prolonged, old})
	same(t, "holds later", t.held(member(1), member(2)), [][]carillon.Held{beat(1, 8, 2).Holds, beat(2, 4, 2).Holds})
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
			run := carillon.RunID{Job: carillon.JobID(1 + rnd.Int64N(1<<62)), Due: epoch + carillon.Time(rnd.IntN(100_000))}
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
	now := func() carillon.Time {
		now, err := t.Now(t.Context())
		if err != nil {
			t.Fatalf("now: %v", err)
		}
		return now
	}
	start := now()
	t.join(member(1))
	for range 2 {
		before := now()
		t.beat(member(1))
		list, err := t.Holds(t.Context(), []string{member(1).ID})
		if err != nil || len(list) != 1 || list[0].At < before || list[0].At > now() || before < start {
			t.Fatalf("started at %d, between %d and %d: %+v %v", start, before, now(), list, err)
		}
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
				if _, err := c.Members(t.Context(), carillon.Never); err != nil {
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
