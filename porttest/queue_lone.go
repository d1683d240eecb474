package porttest

import (
	"sync/atomic"

	"github.com/carillon-run/carillon"
)

// inShare returns a sample run of a share and a priority.
func inShare(share string, priority int8, job int) carillon.Run {
	r := in("q", priority, job, epoch+carillon.Time(job))
	r.Share = share
	return r
}

// manyOf returns more runs of a share than a lone one can have beside it.
func manyOf(share string, from int) (runs []carillon.Run) {
	for i := range carillon.MaxLone + 1 {
		runs = append(runs, inShare(share, 5, from+i))
	}
	return runs
}

// lone pulls the lone runs that there are, up to 10.
func (t queueTest) lone(busy ...carillon.Lane) []carillon.Run {
	t.Helper()
	runs, err := t.Pull(t.Context(), carillon.Demand{
		Max: 10, NoWait: true, Lone: true, Busy: func(sharer carillon.Lane) bool {
			for _, lane := range busy {
				if lane.Sharer() == sharer {
					return true
				}
			}
			return false
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return runs
}

func queueLone(t queueTest) {
	flood := manyOf("a", 1)
	first, second := inShare("b", 5, 11), inShare("b", 5, 12)
	t.push(flood...)
	t.push(first, second)
	same(t, "not of a flood, and one of each share", idsOf(t.lone()), idsOf([]carillon.Run{first}))
	same(t, "the next", idsOf(t.lone()), idsOf([]carillon.Run{second}))
	same(t, "only the flood", len(t.lone()), 0)
	same(t, "as for others", idsOf(t.pull(1)), idsOf(flood[:1]))
	same(t, "the rest of the flood is few", idsOf(t.lone()), idsOf(flood[1:2]))
	t.push(flood[0], inShare("a", 5, 20))
	same(t, "and many again", len(t.lone()), 0)
}

// Runs of a share that need different workers, or have different weights, are not lone beside each other.
func queueLoneNeeds(t queueTest) {
	flood := manyOf("a", 1)
	for i := range flood {
		flood[i].Needs = string(rune('a' + i))
	}
	flood[0].Share = "a*3"
	t.push(flood...)
	same(t, "many types of one share", len(t.lone()), 0)
	t.pull(1)
	got := t.lone()
	same(t, "one of one share", len(got), 1)
	same(t, "the share is busy", len(t.lone(got[0].Lane())), 0)
}

func queueLoneBusy(t queueTest) {
	a, b := inShare("a", 5, 1), inShare("b", 5, 2)
	t.push(a, b)
	same(t, "not of a busy one", idsOf(t.lone(a.Lane())), idsOf([]carillon.Run{b}))
	var busy atomic.Bool
	busy.Store(true)
	answer, asked := make(chan []carillon.Run, 1), make(chan struct{}, 100)
	go func() {
		runs, _ := t.Pull(patient(t), carillon.Demand{Max: 1, Lone: true, Busy: func(carillon.Lane) bool {
			asked <- struct{}{}
			return busy.Load()
		}})
		answer <- runs
	}()
	<-asked
	busy.Store(false)
	// The pull has asked, but may not wait yet.
	for {
		t.Freed([]carillon.Lane{a.Lane().Sharer()})
		select {
		case runs := <-answer:
			same(t, "it is freed", idsOf(runs), idsOf([]carillon.Run{a}))
			t.Freed([]carillon.Lane{a.Lane().Sharer(), b.Lane()}) // of shares that have no runs
			return
		default:
		}
	}
}

func queueLoneOrder(t queueTest) {
	low, high, other := inShare("a", 5, 1), inShare("b", 9, 2), in("other", 5, 3, epoch+3)
	t.push(low, high, other)
	same(t, "the higher priority first", idsOf(t.lone()), idsOf([]carillon.Run{high, other, low}))

	var many []carillon.Run
	for i := range 4 {
		many = append(many, inShare(string(rune('c'+i)), 5, 11+i))
	}
	single := inShare("", 5, 20)
	single.Namespace = "small"
	t.push(many...)
	t.push(single)
	same(t, "namespaces take turns", idsOf(t.lone()), idsOf([]carillon.Run{
		many[0], single, many[1], many[2], many[3],
	}))
}

// However many shares are busy before it, a lone run is found.
func queueLoneBehindBusy(t queueTest) {
	var busy []carillon.Lane
	for i := range 1000 {
		run := inShare("busy"+string(rune(i+1000)), 5, 1+i)
		busy = append(busy, run.Lane())
		t.push(run)
	}
	last := inShare("last", 5, 2000)
	t.push(last)
	for range 20 {
		if got := t.lone(busy...); len(got) > 0 {
			same(t, "the lone one", idsOf(got), idsOf([]carillon.Run{last}))
			return
		}
	}
	t.Error("twenty pulls did not find a lone run behind a thousand that are busy")
}

func queueHas(t queueTest) {
	has := func(what string, run carillon.Run, want bool) {
		t.Helper()
		if got := t.Has(run.Lane()); got != want {
			t.Errorf("%s: %t, want %t", what, got, want)
		}
	}
	has("an empty queue", inShare("a", 5, 9), false)
	t.push(inShare("a", 5, 1))
	has("the same share", inShare("a", 5, 9), true)
	has("with another weight", inShare("a*7", 5, 9), true)
	needs := inShare("a", 5, 9)
	needs.Needs = "other"
	has("with other needs", needs, true)
	has("another share", inShare("b", 5, 9), false)
	has("another priority", inShare("a", 6, 9), false)
	has("another queue", in("other", 5, 9, epoch), false)
	t.pull(1)
	has("when it has no runs", inShare("a", 5, 9), false)
}

func queueLoneWaits(t queueTest) {
	lone, served := make(chan []carillon.Run, 1), make(chan []carillon.Run, 1)
	pull := func(answer chan<- []carillon.Run, want carillon.Demand) {
		runs, _ := t.Pull(patient(t), want)
		answer <- runs
	}
	flood := manyOf("a", 1)
	t.push(flood...)
	go pull(lone, carillon.Demand{Max: 1, Lone: true})
	t.push(inShare("a", 5, 20))
	go pull(served, carillon.Demand{Max: 1, Wants: []carillon.Want{{Queues: []string{"other"}}}})
	run := inShare("b", 5, 11)
	t.push(run)
	same(t, "the lone one", idsOf(<-lone), idsOf([]carillon.Run{run}))
	t.push(in("other", 5, 12, epoch))
	<-served
}
