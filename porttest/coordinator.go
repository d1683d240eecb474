package porttest

import (
	"fmt"
	"reflect"
	"slices"
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
	run("at first there are no members", coordinatorEmpty)
	run("a member comes whole, and the list is in the order of ids", coordinatorJoin)
	run("a node whose session has ended joins again under its id", coordinatorJoinAgain)
	run(
		"what members tell about themselves comes back, with the time at which they joined",
		coordinatorProfile,
	)
	run("an id that is there already does not join again", coordinatorTwice)
	run("a member is gone after leave, and the others stay", coordinatorLeave)
	run("who beats stays, who does not is ended by the first who asks for it", coordinatorExpire)
	run("time alone ends no session: after an outage everybody goes on", coordinatorOutage)
	run("who asks too late ends no session", coordinatorLate)
	run("a beat of the gone is told so, and does not bring them back", coordinatorGone)
	run("what members hold comes back as they said it with their last beat", coordinatorHolds)
	run("a beat that was held up on its way says nothing any more", coordinatorOld)
	run("the numbers of the last beat are kept", coordinatorNumbers)
	run("of several beats of a member at once the one with the highest number counts", coordinatorTogether)
	run("many hold much", coordinatorMuch)
	run("a query gets the members that it asks for, and what they hold only if it asks", coordinatorQuery)
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
		q := carillon.MemberQuery{}
		if expire {
			q.Expire = carillon.Never
		}
		got, _, err := c.Members(t.Context(), q)
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
	list, _, err := t.again.Members(t.Context(), carillon.MemberQuery{IDs: memberIDs(members), Holds: true})
	if err != nil {
		t.Fatalf("holds: %v", err)
	}
	for _, m := range list {
		runs = append(runs, m.Holds)
	}
	return runs
}

// now returns the time by the coordinator's clock.
func (t coordinatorTest) now() carillon.Time {
	t.Helper()
	list, now, err := t.Members(t.Context(), carillon.MemberQuery{IDs: []string{"no such member"}})
	if err != nil || len(list) != 0 {
		t.Fatalf("now: %v, %v", list, err)
	}
	return now
}

func member(i int) carillon.Member {
	return carillon.Member{
		ID: fmt.Sprintf("member-%03d", i), Kind: carillon.MemberWorker,
		Addr: fmt.Sprintf("10.0.0.%d:7000", i),
	}
}

func memberIDs(members []carillon.Member) (ids []string) {
	for _, m := range members {
		ids = append(ids, m.ID)
	}
	return ids
}

func coordinatorEmpty(t coordinatorTest) {
	t.there(false)
	t.there(true)
	t.join()
	t.leave()
	same(t, "gone", t.beat(), []string(nil))
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
		same(
			t, "gone", t.beat(member(1), member(2), member(3), member(9)),
			memberIDs([]carillon.Member{member(1), member(3), member(9)}),
		)
		t.there(false, member(2))
	}
	same(t, "holds", t.held(member(1), member(2), member(3)), [][]carillon.Held{nil})
}
