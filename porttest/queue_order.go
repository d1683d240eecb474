package porttest

import (
	"math/rand/v2"
	"slices"

	"github.com/carillon-run/carillon"
)

func queuePriority(t queueTest) {
	var pushed, want []carillon.Run
	for p := range int8(10) {
		pushed = append(pushed, in("q", p, int(p)+1, epoch))
	}
	want = slices.Clone(pushed)
	slices.Reverse(want)
	t.push(pushed...)
	same(t, "one by one", idsOf(t.pullAll(10)), idsOf(want))
	t.push(pushed...)
	same(t, "at once", idsOf(t.pull(10)), idsOf(want))
}

func queueStrict(t queueTest) {
	const hour = 3_600_000
	old, high := in("q", 8, 1, epoch), in("q", 9, 2, epoch+hour)
	t.push(old, high)
	same(t, "whatever the other has waited", t.pullAll(2), []carillon.Run{high, old})
}

// queueTenth has two lanes that are never empty.
func queueTenth(t queueTest) {
	job := 0
	for range 1000 {
		job++
		t.push(in("q", 0, job, epoch), in("q", 9, job+1000, epoch+120_000))
	}
	for _, size := range []int{1, 7, 10, 64} {
		low, taken := 0, 0
		for taken < 200 {
			for _, r := range t.pull(size, "q") {
				taken++
				if r.Priority == 0 {
					low++
				}
			}
		}
		if low < taken/10-1 || low > taken/10+1 {
			t.Errorf("pulls of %d: %d of %d places went to runs that had waited longest", size, low, taken)
		}
	}
}

// queueTenthOfEach pulls for two workers in turn. If the queue counted places of both together, each tenth
// one would come to the same worker.
func queueTenthOfEach(t queueTest) {
	low := map[string]int{}
	job := 0
	for range 100 {
		for _, needs := range []string{"a", "b"} {
			for range 5 {
				job++
				urgent, old := in("q", 9, job, epoch+120_000), in("q", 0, job+10_000, epoch)
				urgent.Needs, old.Needs = needs, needs
				t.push(urgent, old)
			}
		}
	}
	for range 50 {
		for _, needs := range []string{"a", "b"} {
			want := []carillon.Want{{Types: []string{needs}}}
			runs, err := t.Pull(patient(t), carillon.Demand{Wants: want, Max: 5})
			if err != nil {
				t.Fatalf("pull: %v", err)
			}
			for _, r := range runs {
				if r.Priority == 0 {
					low[needs]++
				}
			}
		}
	}
	if low["a"] != 25 || low["b"] != 25 {
		t.Errorf("of 250 places each %v went to the runs that had waited longest", low)
	}
}

// queueStarve pushes more than it pulls, so the lane of priority 9 is never empty.
func queueStarve(t queueTest) {
	const batch = 10
	job, old := 1, in("q", 0, 1, epoch)
	t.push(old)
	for now := epoch; now < epoch+200_000; now += 1000 {
		for range 2 * batch {
			job++
			t.push(in("q", 9, job, now))
		}
		if slices.Contains(idsOf(t.pull(batch)), old.ID) {
			return
		}
	}
	t.Fatal("not delivered after 200 s")
}

// queueModel compares the order of random pulls with that of a list: the first of the highest priority, but
// each time that the oldest run was passed over nine times, that one. Only one place of a pull is chosen at a
// time in the list.
func queueModel(t queueTest) {
	random := rand.New(rand.NewPCG(1, 2))
	var waiting []carillon.Run
	passed := map[carillon.Lane]int{}
	next := func() (run carillon.Run) {
		oldest, first := 0, 0
		for i := range waiting {
			if waiting[i].Wake < waiting[oldest].Wake {
				oldest = i
			}
			if waiting[i].Before(&waiting[first]) {
				first = i
			}
		}
		at := first
		if lane := waiting[oldest].Lane(); lane.Priority < waiting[first].Priority {
			if passed[lane]++; passed[lane] == 10 {
				passed[lane], at = 0, oldest
			}
		}
		run = waiting[at]
		waiting = slices.Delete(waiting, at, at+1)
		if !slices.ContainsFunc(waiting, func(o carillon.Run) bool { return o.Lane() == run.Lane() }) {
			delete(passed, run.Lane())
		}
		return run
	}
	for job := 1; job < 3000; {
		for range random.IntN(60) {
			run := in("q", int8(random.IntN(10)), job, epoch+carillon.Time(job))
			run.Needs = []string{"a", "b", "c", "d"}[random.IntN(4)]
			t.push(run)
			waiting = append(waiting, run)
			job++
		}
		if len(waiting) == 0 {
			continue
		}
		got := t.pull(1+random.IntN(50), "q")
		var want []carillon.Run
		for range got {
			want = append(want, next())
		}
		same(t, "order", idsOf(got), idsOf(want))
	}
}
