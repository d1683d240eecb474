package porttest

import "github.com/carillon-run/carillon"

// inShare returns a sample run of a share and a priority.
func inShare(share string, priority int8, job int) carillon.Run {
	r := in("q", priority, job, epoch+carillon.Time(job))
	r.Share = share
	return r
}

// lone pulls the lone runs that there are.
func (t queueTest) lone(wants ...carillon.Want) []carillon.Run {
	t.Helper()
	runs, err := t.Pull(t.Context(), carillon.Demand{Wants: wants, Max: 10, NoWait: true, Lone: true})
	if err != nil {
		t.Fatal(err)
	}
	return runs
}

func queueLone(t queueTest) {
	flood := []carillon.Run{inShare("a", 5, 1), inShare("a", 5, 2), inShare("a", 5, 3)}
	first, second, third := inShare("b", 5, 11), inShare("b", 5, 12), inShare("b", 5, 13)
	t.push(flood...)
	t.push(first, second)
	same(t, "the first of each lane", idsOf(t.lone()), idsOf([]carillon.Run{flood[0], first}))
	same(t, "those behind them", len(t.lone()), 0)
	same(t, "by turns", idsOf(t.pullAll(3)), idsOf([]carillon.Run{flood[1], second, flood[2]}))
	t.push(third)
	same(t, "of a lane that had no runs", idsOf(t.lone()), idsOf([]carillon.Run{third}))
	t.push(flood[0])
	same(t, "of the other one", idsOf(t.lone()), idsOf(flood[:1]))
}

func queueLonePriority(t queueTest) {
	high := []carillon.Run{inShare("a", 9, 1), inShare("a", 9, 2), inShare("a", 9, 3)}
	t.push(high...)
	t.pull(1)
	low, other := inShare("b", 5, 11), in("other", 5, 12, epoch)
	t.push(low, other)
	same(t, "below a higher priority", idsOf(t.lone()), idsOf([]carillon.Run{other}))
	high[0].Namespace = "of another worker"
	t.push(high[0])
	same(t, "of the highest priority", idsOf(t.lone(carillon.Want{
		Namespaces: []string{high[0].Namespace, low.Namespace},
	})), idsOf(high[:1]))
	same(t, "the rest", idsOf(t.pull(2)), idsOf(high[1:]))
	same(t, "when none is left", idsOf(t.lone()), idsOf([]carillon.Run{low}))
}

func queueLoneSays(t queueTest) {
	all := carillon.Want{}
	says := func(what string, run carillon.Run, want bool, wants ...carillon.Want) {
		t.Helper()
		if got := t.Lone(run.Lane(), wants...); got != want {
			t.Errorf("%s: %t, want %t", what, got, want)
		}
	}
	says("an empty queue", inShare("b", 5, 9), true, all)
	t.push(inShare("a", 5, 1), inShare("a", 5, 2))
	says("another share", inShare("b", 5, 9), true, all)
	says("the same share", inShare("a", 5, 9), false, all)
	says("a higher priority", inShare("a", 6, 9), true, all)
	says("a lower priority", inShare("b", 4, 9), false, all)
	says("a lower one, if the worker takes none of these", inShare("b", 4, 9), true,
		carillon.Want{Namespaces: []string{"of another worker"}})
	t.pull(2)
	says("the same share, when it has no runs", inShare("a", 5, 9), true, all)
}

func queueLoneWaits(t queueTest) {
	lone, served := make(chan []carillon.Run, 1), make(chan []carillon.Run, 1)
	pull := func(answer chan<- []carillon.Run, want carillon.Demand) {
		runs, _ := t.Pull(patient(t), want)
		answer <- runs
	}
	t.push(inShare("a", 5, 1), inShare("a", 5, 2), inShare("a", 5, 3))
	t.pull(1)
	go pull(lone, carillon.Demand{Max: 1, Lone: true})
	t.push(inShare("a", 5, 4))
	t.pull(3)
	go pull(served, carillon.Demand{Max: 1, Wants: []carillon.Want{{Queues: []string{"other"}}}})
	run := inShare("b", 5, 11)
	t.push(run)
	same(t, "the lone one", idsOf(<-lone), idsOf([]carillon.Run{run}))
	t.push(in("other", 5, 12, epoch))
	<-served
}
