package porttest

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/carillon-run/carillon"
)

var storeLines = []storeCase{
	{"what a run waits for and the slots that it has stay until they change or the run ends", storeHoldsKept},
	{"a line has its waiting runs in the order of their due times, from a position on", storeLine},
	{"a line leaves out what is due or wakes later, but has runs without a wake", storeLineUntil},
	{"a run leaves its line when it is claimed, ends, or waits for nothing or something else", storeLineLeft},
	{"a run whose change lost stays in its line", storeLineLost},
	{"changes of one commit move a run from line to line", storeLineMoves},
	{"the runs of some lines are read as the query says", storeLinesRandom},
	{"the names of lines come in pages, without the empty ones", storeHolds},
	{"the count of a queue is the sum of its runs", storeCounts},
	{"a run that waits for what its hold names has the status held", storeHeldStatus},
	{"the runs that a gate held leave in the order of their due times", storeGate},
}

func (t *storeTest) line(q carillon.LineQuery) []carillon.Run {
	t.Helper()
	runs, err := t.store.Line(context.Background(), q)
	t.must(err)
	return runs
}

// lineIDs returns the runs of a line of the default namespace.
func (t *storeTest) lineIDs(hold string) []carillon.RunID {
	t.Helper()
	return idsOf(t.line(carillon.LineQuery{
		Lines: []carillon.HoldName{{Namespace: carillon.DefaultNamespace, Hold: hold}}, Until: t.now,
	}))
}

func (t *storeTest) holds(after carillon.HoldName, limit int) []carillon.HoldName {
	t.Helper()
	names, err := t.store.Holds(context.Background(), after, limit)
	t.must(err)
	return names
}

// inLine inserts a run of a new job that waits for a hold, and has waited for some milliseconds.
func (t *storeTest) inLine(hold string, waited carillon.Time) carillon.Run {
	t.Helper()
	c := carillon.Submit(t.newJob(nil), t.now)
	run := &c.Runs[0]
	run.ID.Due, run.Wake, run.Hold = t.now-waited, carillon.Never, hold
	run.Flags |= carillon.FlagAdditional // its due is not that of its job
	t.win(c)
	run.Rev = 1
	return *run
}

// put writes a run and returns it as it is stored then.
func (t *storeTest) put(run carillon.Run) carillon.Run {
	t.Helper()
	t.win(carillon.Change{Runs: []carillon.Run{run}})
	run.Rev++
	return run
}

func storeHoldsKept(t *storeTest) {
	run := t.inLine("limit/key/a", 5)
	t.equal("inserted", t.run(run.ID), &run)
	elsewhere := run
	elsewhere.Namespace = "other" // what a run is born with stays
	run = t.put(elsewhere)
	run.Namespace = carillon.DefaultNamespace
	t.equal("line", t.lineIDs("limit/key/a"), []carillon.RunID{run.ID})
	run.Hold, run.Slots = "limit/key/b", "key/a"
	run = t.put(run)
	t.equal("updated", t.run(run.ID), &run)
	claimed := run.Claim("w", t.now)
	claimed.Slots = "key/a\nqueue/mail*3"
	run = t.put(claimed)
	t.equal("claimed", t.run(run.ID), &run)
	run.Hold, run.Slots = "", ""
	run = t.put(run)
	t.equal("without", t.run(run.ID), &run)
	run.State, run.Hold, run.Slots = carillon.StateWaiting, "limit/key/a", "key/a"
	run = t.put(run)
	run.State, run.Ended, run.Wake, run.Flags = carillon.StateFailed, t.now, 0, 0
	t.win(carillon.Change{Runs: []carillon.Run{run}}) // history keeps neither
	run.Hold, run.Slots, run.Needs, run.Share, run.Rev = "", "", "", "", 0
	t.equal("ended", t.run(run.ID), &run)
	t.equal("dead letter", t.findRuns(carillon.RunQuery{Dead: true}), []carillon.Run{run})
	t.equal("names", t.holds(carillon.HoldName{}, 0), []carillon.HoldName(nil))
}

func storeLine(t *storeTest) {
	third, first := t.inLine("limit/key/a", 1), t.inLine("limit/key/a", 9)
	other := t.inLine("limit/key/b", 5)
	second := t.inLine("limit/key/a", 9) // a later job at the same time
	t.submit(nil)
	second.About, first.About, third.About, other.About = nil, nil, nil, nil
	name := carillon.HoldName{Namespace: carillon.DefaultNamespace, Hold: "limit/key/a"}
	q := carillon.LineQuery{Lines: []carillon.HoldName{name}, Until: t.now}
	t.equal("line", t.line(q), []carillon.Run{first, second, third})
	q.Limit = 1
	for _, run := range []carillon.Run{first, second, third} {
		t.equal("page", t.line(q), []carillon.Run{run})
		q.After = run.ID
	}
	t.equal("behind the last", t.line(q), []carillon.Run(nil))
	q.After = carillon.RunID{}
	q.Lines = []carillon.HoldName{
		{Namespace: "none", Hold: name.Hold}, name, {Namespace: name.Namespace, Hold: "limit/key/b"},
	}
	q.Limit = 2
	both := t.line(q)
	slices.SortStableFunc(both, func(a, b carillon.Run) int { return cmp.Compare(a.Hold, b.Hold) })
	t.equal("two lines, the first two runs of each", both, []carillon.Run{first, second, other})
	t.equal("no line", t.line(carillon.LineQuery{Until: t.now}), []carillon.Run(nil))
}

func storeLineUntil(t *storeTest) {
	const hold = "limit/key/a"
	parked := t.inLine(hold, 0)
	due, retry, soon := t.inLine(hold, 9), t.inLine(hold, 8), t.inLine(hold, -1)
	due.Wake, retry.Wake, soon.Wake = due.ID.Due, t.now+1, soon.ID.Due
	due, retry, soon = t.put(due), t.put(retry), t.put(soon)
	later := t.inLine(hold, -2)
	t.equal("now", t.lineIDs(hold), idsOf([]carillon.Run{due, parked}))
	t.now++
	t.equal("a millisecond later", t.lineIDs(hold), idsOf([]carillon.Run{due, retry, parked, soon}))
	t.now = carillon.Never - 1
	t.equal("at the end", t.lineIDs(hold), idsOf([]carillon.Run{due, retry, parked, soon, later}))
}

// storeLineLeft has each change alone and all of them in one commit: a store may write them differently.
func storeLineLeft(t *storeTest) {
	const hold, other = "limit/key/a", "limit/key/b"
	leave := func(run carillon.Run, way int) carillon.Change {
		switch way {
		case 0:
			run = run.Claim("w", t.now)
		case 1:
			run = run.Claim("w", t.now)
			run.Slots = "key/a"
		case 2:
			run = run.End(carillon.StateCanceled, "canceled", t.now)
		case 3:
			run.Hold, run.Wake = "", t.now
		case 4:
			run.Hold = other
		}
		return carillon.Change{Runs: []carillon.Run{run}}
	}
	const ways = 5
	for _, together := range []int{1, ways, 20 * ways} {
		stays := t.inLine(hold, 100_000)
		var changes []carillon.Change
		var moved []carillon.RunID
		for i := range together {
			run := t.inLine(hold, carillon.Time(200_000-i))
			if i%ways == 4 {
				moved = append(moved, run.ID)
			}
			changes = append(changes, leave(run, i%ways))
			_, plain := t.submit(nil)
			changes = append(changes, carillon.Change{Runs: []carillon.Run{plain.Claim("w", t.now)}})
		}
		if together == 1 { // each change in its own commit
			for i := range ways {
				run := t.inLine(hold, carillon.Time(300_000-i))
				t.win(leave(run, i))
				if i == 4 {
					moved = append([]carillon.RunID{run.ID}, moved...)
				}
			}
		}
		t.win(changes...)
		t.equal("stays", t.lineIDs(hold), []carillon.RunID{stays.ID})
		t.equal("moved", t.lineIDs(other), moved)
		stays.Hold = ""
		t.win(carillon.Change{Runs: []carillon.Run{stays}})
		for _, id := range moved {
			run := *t.run(id)
			t.win(carillon.Change{Runs: []carillon.Run{run.End(carillon.StateSkipped, "skipped", t.now)}})
		}
		t.equal("names", t.holds(carillon.HoldName{}, 0), []carillon.HoldName(nil))
	}
}

func storeLineLost(t *storeTest) {
	const hold = "limit/key/a"
	first, second := t.inLine(hold, 9), t.inLine(hold, 8)
	_, plain := t.submit(nil)
	want := idsOf([]carillon.Run{first, second})
	late := first.Claim("w", t.now)
	late.Rev++
	gone := plain.Claim("w", t.now)
	gone.Rev++
	t.lose(carillon.Change{Runs: []carillon.Run{late}})
	t.lose(carillon.Change{Runs: []carillon.Run{gone}})
	t.lose(carillon.Change{Runs: []carillon.Run{second.Claim("w", t.now), gone}})
	t.lose(carillon.Change{Runs: []carillon.Run{second.End(carillon.StateCanceled, "", t.now), late}})
	t.equal("after lost changes", t.lineIDs(hold), want)
	lost := t.commit(
		carillon.Change{Runs: []carillon.Run{late}},
		carillon.Change{Runs: []carillon.Run{second.Claim("w", t.now)}},
		carillon.Change{Runs: []carillon.Run{gone}},
	)
	t.equal("lost", lost, []int{0, 2})
	t.equal("after one that won", t.lineIDs(hold), idsOf([]carillon.Run{first}))
}

func storeLineMoves(t *storeTest) {
	c := carillon.Submit(t.newJob(nil), t.now)
	c.Runs[0].Hold = "limit/key/a"
	moved := c.Runs[0]
	moved.Rev, moved.Hold = 1, "limit/key/b"
	again := moved
	again.Rev, again.Hold = 2, ""
	t.win(c, carillon.Change{Runs: []carillon.Run{moved}}, carillon.Change{Runs: []carillon.Run{again}})
	t.equal("no line", t.holds(carillon.HoldName{}, 0), []carillon.HoldName(nil))
	again.Rev, again.Hold = 3, "limit/key/c"
	back := again
	back.Rev = 4
	t.win(carillon.Change{Runs: []carillon.Run{again}}, carillon.Change{Runs: []carillon.Run{back}})
	t.equal("the last line", t.lineIDs("limit/key/c"), []carillon.RunID{again.ID})
	t.equal("names", t.holds(carillon.HoldName{}, 0), []carillon.HoldName{
		{Namespace: carillon.DefaultNamespace, Hold: "limit/key/c"},
	})
}

// random inserts runs of all situations that a queue can be in.
func (t *storeTest) random(r *rand.Rand, n int) (runs []carillon.Run) {
	t.Helper()
	var changes []carillon.Change
	for i := range n {
		run := sample(1000+i, 0)
		run.ID.Due = t.now + carillon.Time(r.IntN(8)-6)
		run.Rev, run.Namespace, run.Queue = 0, pick(r, namespaces...), pick(r, queues...)
		run.Hold = pick(r, "", "limit/key/a", "limit/key/B", "limit/queue/ä")
		run.Wake = pick(r, run.ID.Due, t.now+carillon.Time(r.IntN(5)-2), carillon.Never)
		run.State = pick(r, carillon.StateWaiting, carillon.StateWaiting, carillon.StateWaiting,
			carillon.StateClaimed, carillon.StateRunning)
		run.Flags = pick(r, carillon.FlagAdditional, carillon.FlagAdditional|carillon.FlagPlanned,
			carillon.FlagAdditional|carillon.FlagOnHold)
		changes, runs = append(changes, carillon.Change{Runs: []carillon.Run{run}}), append(runs, run)
	}
	t.win(changes...)
	for i := range runs {
		runs[i].Rev = 1
	}
	slices.SortFunc(runs, func(a, b carillon.Run) int {
		return cmp.Or(cmp.Compare(a.ID.Due, b.ID.Due), cmp.Compare(a.ID.Job, b.ID.Job))
	})
	return runs
}

func storeLinesRandom(t *storeTest) {
	seed := Seed(t.T)
	r := rand.New(rand.NewPCG(uint64(seed), 2))
	runs := t.random(r, 300)
	for range 50 {
		q := carillon.LineQuery{
			Until: t.now + carillon.Time(r.IntN(6)-3), Limit: pick(r, 1, 3, 100),
			After: pick(r, carillon.RunID{}, runs[r.IntN(len(runs))].ID),
		}
		for _, namespace := range namespaces {
			for _, hold := range []string{"limit/key/a", "limit/key/B", "limit/queue/ä", "limit/key/none"} {
				if r.IntN(2) == 0 {
					q.Lines = append(q.Lines, carillon.HoldName{Namespace: namespace, Hold: hold})
				}
			}
		}
		got, ended := map[carillon.HoldName][]carillon.Run{}, map[carillon.HoldName]bool{}
		last := carillon.HoldName{}
		for _, run := range t.line(q) {
			name := carillon.HoldName{Namespace: run.Namespace, Hold: run.Hold}
			if name != last {
				if ended[last] = true; ended[name] {
					t.Fatalf("the runs of %v are not together", name)
				}
				last = name
			}
			got[name] = append(got[name], run)
		}
		want := map[carillon.HoldName][]carillon.Run{}
		for _, run := range runs {
			name := carillon.HoldName{Namespace: run.Namespace, Hold: run.Hold}
			if slices.Contains(q.Lines, name) && q.Wants(&run) && len(want[name]) < q.Limit {
				want[name] = append(want[name], run)
			}
		}
		t.equal(fmt.Sprintf("%+v", q), got, want)
	}
}

func storeHolds(t *storeTest) {
	var want []carillon.HoldName
	var changes []carillon.Change
	var gone []carillon.Run
	for i := range 60 {
		for j := range 3 { // runs of each line
			run := sample(1000+10*i+j, carillon.Never)
			run.Rev, run.Namespace = 0, []string{"default", "a", "Z"}[i%3]
			run.Hold = fmt.Sprintf("limit/key/%s%d", []string{"a", "B", "ä"}[i/3%3], i/9)
			changes = append(changes, carillon.Change{Runs: []carillon.Run{run}})
			switch run.Rev = 1; {
			case i%5 == 4:
				gone = append(gone, run)
			case j == 0:
				want = append(want, carillon.HoldName{Namespace: run.Namespace, Hold: run.Hold})
				gone = append(gone, run) // the first run of a line leaves, and the line stays
			}
		}
	}
	t.win(changes...)
	for i, run := range gone {
		if i%2 == 0 {
			run = run.Claim("w", t.now)
		} else {
			run = run.End(carillon.StateCanceled, "canceled", t.now)
		}
		t.win(carillon.Change{Runs: []carillon.Run{run}})
	}
	slices.SortFunc(want, func(a, b carillon.HoldName) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Hold, b.Hold))
	})
	t.equal("all", t.holds(carillon.HoldName{}, 0), want)
	for _, size := range []int{1, 7, len(want)} {
		var names []carillon.HoldName
		for after := (carillon.HoldName{}); ; after = names[len(names)-1] {
			page := t.holds(after, size)
			if len(page) == 0 {
				break
			}
			if len(page) > size {
				t.Fatalf("a page of %d, limit %d", len(page), size)
			}
			names = append(names, page...)
		}
		t.equal(fmt.Sprintf("in pages of %d", size), names, want)
	}
	// a position that is no line, but lies between two of them
	at := want[len(want)/2]
	t.equal("behind a name", t.holds(carillon.HoldName{Namespace: at.Namespace, Hold: at.Hold + " "}, 1),
		want[len(want)/2+1:len(want)/2+2])
}

func storeCounts(t *storeTest) {
	seed := Seed(t.T)
	runs := t.random(rand.New(rand.NewPCG(uint64(seed), 3)), 400)
	for _, namespace := range append(namespaces, "none") {
		for now := t.now - 3; now < t.now+4; now++ {
			sums := map[carillon.QueueCount]carillon.QueueCount{}
			for i := range runs {
				one, counts := carillon.CountOf(&runs[i], now)
				if !counts || runs[i].Namespace != namespace {
					continue
				}
				key := one
				key.Runs, key.Oldest = 0, 0
				if sum, some := sums[key]; some {
					one.Runs, one.Oldest = sum.Runs+1, min(sum.Oldest, one.Oldest)
				}
				sums[key] = one
			}
			var want []carillon.QueueCount
			for _, sum := range sums {
				want = append(want, sum)
			}
			got, err := t.store.Counts(context.Background(), namespace, now)
			t.must(err)
			t.equal(fmt.Sprintf("%s at %d", namespace, now-t.now), sortCounts(got), sortCounts(want))
		}
	}
}

func storeHeldStatus(t *storeTest) {
	held := t.inLine("limit/key/a", 9)
	paused := t.inLine("limit/key/a", 8)
	paused.Flags |= carillon.FlagOnHold
	paused = t.put(paused)
	first := t.inLine("limit/key/a", 7) // in the line, and due by its wake
	first.Wake = first.ID.Due
	first = t.put(first)
	_, queued := t.submit(nil)
	for status, want := range map[carillon.Status][]carillon.Run{
		carillon.StatusHeld: {held}, carillon.StatusPaused: {paused}, carillon.StatusQueued: {first, queued},
	} {
		for _, limit := range []int{1, 10} {
			q := carillon.RunQuery{Statuses: []carillon.Status{status}, Now: t.now, Limit: limit}
			t.equal(string(status), idsOf(t.findRuns(q)), idsOf(want))
		}
		q := carillon.RunQuery{Statuses: []carillon.Status{status}, Now: t.now, Job: want[0].ID.Job}
		t.equal(string(status)+" of a job", t.findRuns(q), want[:1])
	}
}
