package porttest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/carillon-run/carillon"
)

// Coordinator checks what carillon.Coordinator promises. open returns one without members. If it has a method
// Lose(id string) that takes a member away as an outage would, that is tried as well.
func Coordinator(t *testing.T, open func(t *testing.T) carillon.Coordinator) {
	run := func(name string, f func(coordinatorTest)) {
		t.Run(name, func(t *testing.T) { f(coordinatorTest{t, open(t)}) })
	}
	run("watch delivers the members at once, even if there are none", coordinatorNow)
	run("a member comes whole to every watcher, before and after it joined", coordinatorJoin)
	run("a member is gone when its context ends, and the others stay", coordinatorLeave)
	run("who looks late sees the latest list, and holds nobody up", coordinatorLate)
	run("a watch ends with its context, and the channel is closed", coordinatorEnds)
	run("who is lost is told, and is gone", coordinatorLost)
}

type coordinatorTest struct {
	testing.TB
	carillon.Coordinator
}

func (t coordinatorTest) join(ctx context.Context, m carillon.Member) (lost <-chan struct{}) {
	t.Helper()
	lost, err := t.Join(ctx, m)
	if err != nil {
		t.Fatalf("join: %v", err)
	}
	return lost
}

func (t coordinatorTest) watch(ctx context.Context) <-chan []carillon.Member {
	t.Helper()
	lists, err := t.Watch(ctx)
	if err != nil {
		t.Fatalf("watch: %v", err)
	}
	return lists
}

// see reads until the list is what it should be; lists of the time before may come first.
func (t coordinatorTest) see(lists <-chan []carillon.Member, want ...carillon.Member) {
	t.Helper()
	var got []carillon.Member
	for {
		select {
		case list, open := <-lists:
			if !open {
				t.Fatal("the channel was closed")
			}
			got = slices.Clone(list)
			slices.SortFunc(got, func(a, b carillon.Member) int { return cmp.Compare(a.ID, b.ID) })
			if slices.Equal(got, want) {
				return
			}
		case <-patient(t).Done():
			t.Fatalf("the last list was %v, want %v", got, want)
		}
	}
}

func member(i int) carillon.Member {
	return carillon.Member{ID: fmt.Sprintf("member-%03d", i), Kind: "worker", Addr: fmt.Sprintf("10.0.0.%d:7000", i)}
}

func coordinatorNow(t coordinatorTest) {
	t.see(t.watch(t.Context()))
	t.join(t.Context(), member(1))
	t.see(t.watch(t.Context()), member(1))
}

func coordinatorJoin(t coordinatorTest) {
	before := t.watch(t.Context())
	t.join(t.Context(), member(1))
	between := t.watch(t.Context())
	t.join(t.Context(), member(2))
	for _, lists := range []<-chan []carillon.Member{before, between, t.watch(t.Context())} {
		t.see(lists, member(1), member(2))
	}
}

func coordinatorLeave(t coordinatorTest) {
	lists := t.watch(t.Context())
	ctx, leave := context.WithCancel(t.Context())
	t.join(t.Context(), member(1))
	t.join(ctx, member(2))
	t.join(t.Context(), member(3))
	t.see(lists, member(1), member(2), member(3))
	leave()
	t.see(lists, member(1), member(3))
}

func coordinatorLate(t coordinatorTest) {
	late := t.watch(t.Context())
	var all []carillon.Member
	for i := range 100 {
		all = append(all, member(i))
		t.join(t.Context(), member(i))
	}
	t.see(t.watch(t.Context()), all...)
	t.see(late, all...)
}

func coordinatorEnds(t coordinatorTest) {
	ctx, cancel := context.WithCancel(t.Context())
	lists := t.watch(ctx)
	cancel()
	for {
		select {
		case _, open := <-lists:
			if !open {
				t.join(t.Context(), member(1)) // nobody is told, and nobody minds
				return
			}
		case <-patient(t).Done():
			t.Fatal("the channel was not closed")
		}
	}
}

func coordinatorLost(t coordinatorTest) {
	loser, ok := t.Coordinator.(interface{ Lose(id string) })
	if !ok {
		t.Skip("there is no way to lose a member")
	}
	lists := t.watch(t.Context())
	lost, kept := t.join(t.Context(), member(1)), t.join(t.Context(), member(2))
	t.see(lists, member(1), member(2))
	loser.Lose(member(1).ID)
	select {
	case <-lost:
	case <-patient(t).Done():
		t.Fatal("the lost member was not told")
	}
	t.see(lists, member(2))
	select {
	case <-kept:
		t.Fatal("the other member was told, too")
	default:
	}
}
