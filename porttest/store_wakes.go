package porttest

import (
	"slices"

	"github.com/carillon-run/carillon"
)

var storeWakes = []storeCase{
	{"unfinished runs come by wake, due and job, without what only people ask for", storeWakeOrder},
	{
		"runs that wake at their due time and runs that were moved come in one order, page by page",
		storeWakePages,
	},
	{"a run that is moved is found at its new wake only", storeWakeMoved},
	{"a run that waits for a person wakes never", storeWakeNever},
	{"until is the last wake that is asked for", func(t *storeTest) {
		ids := t.runsAt(t.now, t.now+1, t.now+2)
		t.equal("found", idsOf(t.wakes(carillon.WakeQuery{Until: t.now + 1})), ids[:2])
		t.equal("found", idsOf(t.wakes(carillon.WakeQuery{Until: t.now - 1})), []carillon.RunID{})
	}},
	{"wakes are of the lane that is asked for", storeWakeLane},
	{"wakes are of the shards that are asked for", storeWakeShards},
	{"what a full lane holds, and all of the others, is found behind what waits in it", storeWakeFull},
	{"held runs are found behind those that wait", storeWakeHeld},
	{"a query without a limit returns the default number", func(t *storeTest) {
		var dues []carillon.Time
		for i := range carillon.DefaultLimit + 10 {
			dues = append(dues, t.now+carillon.Time(i))
		}
		ids := t.runsAt(dues...)
		t.equal(
			"found", idsOf(t.wakes(carillon.WakeQuery{Until: carillon.Never})), ids[:carillon.DefaultLimit],
		)
	}},
}

// runsAt submits a job for each due time.
func (t *storeTest) runsAt(dues ...carillon.Time) (ids []carillon.RunID) {
	t.Helper()
	var changes []carillon.Change
	for _, due := range dues {
		c := carillon.Submit(t.newJob(func(j *carillon.Job) { j.Schedule.At = due }), t.now)
		changes = append(changes, c)
		ids = append(ids, c.Runs[0].ID)
	}
	t.win(changes...)
	return ids
}

// move changes when a run wakes.
func (t *storeTest) move(id carillon.RunID, wake carillon.Time) {
	t.Helper()
	run := t.run(id)
	run.Wake = wake
	t.win(carillon.Change{Runs: []carillon.Run{*run}})
}

func storeWakeFull(t *storeTest) {
	var want []carillon.RunID
	for i := range 600 {
		_, run := t.submit(func(j *carillon.Job) {
			j.Schedule.At, j.Queue, j.Priority = t.now+carillon.Time(i), "full", 3
			j.Needs = map[string]string{"a": "b=3"}
			switch i % 100 {
			case 40:
				j.Queue = "ful"
			case 50:
				j.Priority = 4
			case 60:
				j.Queue = "other"
			case 62:
				j.Namespace = "other"
			case 64:
				j.Type = "mail.sen"
			case 66:
				j.Target = carillon.Target{HTTP: &carillon.HTTP{URL: "http://localhost"}}
			case 68:
				j.Needs = map[string]string{"a": "b"}
			}
		})
		if i%100 == 70 {
			run = t.claim(run, "worker-1")
		}
		if i%100 == 80 {
			t.move(run.ID, t.now+1000)
		}
		if i%100 >= 40 && i%100 <= 70 && i%10 == 0 || i%100 > 60 && i%100 < 69 && i%2 == 0 {
			want = append(want, run.ID)
		}
	}
	lane := carillon.Lane{Namespace: "default", Queue: "full", Priority: 3}
	lane.Needs = needsOf("mail.send", map[string]string{"a": "b=3"})
	empty := lane
	empty.Queue = "empty"
	storeWakesBut(t, []carillon.Lane{lane}, want)
	storeWakesBut(t, []carillon.Lane{lane, empty}, want)
}

// storeWakesBut reads all runs but the waiting ones of full lanes, of which only the first has runs.
func storeWakesBut(t *storeTest, full []carillon.Lane, want []carillon.RunID) {
	t.Helper()
	q := carillon.WakeQuery{Full: full, Until: carillon.Never, Limit: 7}
	var got []carillon.RunID
	for {
		page := t.wakes(q)
		for i := range page {
			// Waiting runs of the full lane can be left out, but need not be.
			if page[i].Lane() != full[0] || page[i].State != carillon.StateWaiting {
				got = append(got, page[i].ID)
			}
		}
		if !q.More(page) {
			break
		}
		q.After = page[len(page)-1].WakePos()
	}
	t.equal("found", got, want)
}

func storeWakeOrder(t *storeTest) {
	_, first := t.submit(nil)
	_, second := t.submit(nil)
	_, later := t.submit(func(j *carillon.Job) { j.Schedule.At = t.now + 1 })
	second.Output = &carillon.Output{Checkpoint: []byte("c")}
	t.win(carillon.Change{Runs: []carillon.Run{second}})
	second.Rev, second.Output = 2, nil
	first = t.claim(first, "worker-1") // a claim does not move the wake
	t.finished(carillon.StateSucceeded, nil)
	first.About, second.About, later.About = nil, nil, nil
	t.equal("wakes", t.wakes(carillon.WakeQuery{Until: carillon.Never}), []carillon.Run{first, second, later})
}

// storeWakePages lets runs meet at one wake: some were moved there from an earlier or a later due time,
// others are due then.
func storeWakePages(t *storeTest) {
	meet := t.now + 50
	var want []carillon.WakePos
	for i := range 30 {
		due := t.now + carillon.Time(i%10)*10
		id := t.runsAt(due)[0]
		wake := due
		if i%3 == 0 {
			wake = meet
		} else if i%7 == 0 {
			wake = due + 5
		}
		if wake != due {
			t.move(id, wake)
		}
		want = append(want, carillon.WakePos{Wake: wake, ID: id})
	}
	slices.SortFunc(want, func(a, b carillon.WakePos) int {
		if a.Less(b) {
			return -1
		}
		return 1
	})
	for _, limit := range []int{1, 2, 7, 100} {
		var got []carillon.WakePos
		q := carillon.WakeQuery{Until: carillon.Never, Limit: limit}
		for page := t.wakes(q); len(page) > 0; page = t.wakes(q) {
			t.goesOn(len(got))
			for i := range page {
				got = append(got, page[i].WakePos())
			}
			q.After = got[len(got)-1]
		}
		t.equal("wakes", got, want)
	}
}

func storeWakeMoved(t *storeTest) {
	ids := t.runsAt(t.now, t.now+10, t.now+20)
	// The last wake is its due time again.
	for _, wake := range []carillon.Time{t.now + 15, t.now + 30, t.now + 5, t.now} {
		t.move(ids[0], wake)
		want := []carillon.WakePos{
			{Wake: wake, ID: ids[0]}, {Wake: ids[1].Due, ID: ids[1]}, {Wake: ids[2].Due, ID: ids[2]},
		}
		slices.SortFunc(want, func(a, b carillon.WakePos) int { return int(a.Wake - b.Wake) })
		var got []carillon.WakePos
		for _, run := range t.wakes(carillon.WakeQuery{Until: carillon.Never}) {
			got = append(got, run.WakePos())
		}
		t.equal("wakes", got, want)
	}
}

func storeWakeNever(t *storeTest) {
	ids := t.runsAt(t.now, t.now+10)
	t.move(ids[0], carillon.Never)
	t.equal("soon", idsOf(t.wakes(carillon.WakeQuery{Until: t.now + 1_000_000})), ids[1:])
	t.equal("ever", idsOf(t.wakes(carillon.WakeQuery{Until: carillon.Never})), []carillon.RunID{
		ids[1], ids[0],
	})
}

func storeWakeLane(t *storeTest) {
	usual := carillon.Lane{Namespace: "default", Queue: "default", Needs: "mail.send", Priority: 5}
	lanes := slices.Repeat([]carillon.Lane{usual}, 10)
	needs := []map[string]string{8: {"gpu": "true"}, 9: {"gpu": "true", "zone": "é = \"1\" \\ '%"}}
	lanes[8].Needs, lanes[9].Needs = needsOf("mail.send", needs[8]), needsOf("mail.send", needs[9])
	lanes[1].Priority, lanes[2].Queue, lanes[3].Namespace = 9, "slow", "other"
	lanes[4].Needs, lanes[5].Needs = "mail.read", ":http"
	lanes[6].Share, lanes[7].Share = "acme", "acme*3"
	want := map[carillon.Lane][]carillon.RunID{}
	for i := range 40 {
		lane := lanes[i%len(lanes)]
		_, run := t.submit(func(j *carillon.Job) {
			j.Namespace, j.Queue, j.Type = lane.Namespace, lane.Queue, lane.WithoutLabels().Needs
			j.Needs = needs[i%len(lanes)]
			j.Priority, j.Schedule.At = int(lane.Priority), t.now+carillon.Time(i)
			key, weight := lane.FairShare()
			j.FairBy, j.FairWeight = key, int32(weight)
			if lane.Needs == ":http" {
				j.Type, j.Target = "call", carillon.Target{HTTP: &carillon.HTTP{URL: "http://localhost"}}
			}
		})
		if i/len(lanes)%2 == 0 {
			t.move(run.ID, t.now+100+carillon.Time(i))
		}
		want[lane] = append(want[lane], run.ID)
	}
	for _, lane := range lanes {
		var got []carillon.RunID
		q := carillon.WakeQuery{Lane: &lane, Until: carillon.Never, Limit: 1}
		for page := t.wakes(q); len(page) > 0; page = t.wakes(q) {
			t.goesOn(len(got))
			got, q.After = append(got, page[0].ID), page[0].WakePos()
		}
		slices.SortFunc(got, func(a, b carillon.RunID) int { return int(a.Due - b.Due) })
		t.equal("of the lane", got, want[lane])
	}
	any := t.wakes(carillon.WakeQuery{Lane: &lanes[7], AnyShare: true, Until: carillon.Never})
	t.equal("of any share", len(any), len(want[lanes[0]])+len(want[lanes[6]])+len(want[lanes[7]]))
	for i := range any {
		if any[i].Lane().WithoutShare() != lanes[7].WithoutShare() {
			t.Errorf("of any share: %+v", any[i].Lane())
		}
	}
	none := lanes[2]
	none.Priority = 9
	t.equal("of an empty lane", len(t.wakes(carillon.WakeQuery{Lane: &none, Until: carillon.Never})), 0)
}

func storeWakeShards(t *storeTest) {
	var dues []carillon.Time
	for i := range 60 {
		dues = append(dues, t.now+carillon.Time(i))
	}
	ids := t.runsAt(dues...)
	for i, id := range ids {
		if i%4 == 0 {
			t.move(id, id.Due+1000)
		}
	}
	all := t.wakes(carillon.WakeQuery{Until: carillon.Never})
	shards := []int{ids[0].Job.Shard(), ids[1].Job.Shard()}
	want := slices.DeleteFunc(slices.Clone(all), func(r carillon.Run) bool {
		return !slices.Contains(shards, r.ID.Job.Shard())
	})
	t.equal("two shards", t.wakes(carillon.WakeQuery{Shards: shards, Until: carillon.Never}), want)
	t.equal("no shard", len(t.wakes(carillon.WakeQuery{Shards: []int{}, Until: carillon.Never})), 0)
	full := []carillon.Lane{all[0].Lane()}
	t.equal(
		"no shard, and a full lane",
		len(t.wakes(carillon.WakeQuery{Shards: []int{}, Full: full, Until: carillon.Never})), 0,
	)
}

func storeWakeHeld(t *storeTest) {
	var want []carillon.RunID
	for i := range 600 {
		_, run := t.submit(func(j *carillon.Job) { j.Schedule.At = t.now + carillon.Time(i) })
		if i%70 != 69 {
			continue
		}
		claimed := run.Claim("worker_1", t.now+carillon.Time(i))
		if i%140 == 69 {
			claimed = claimed.Begin(t.now+carillon.Time(i), t.now+carillon.Time(i))
		}
		if i == 209 {
			claimed.Wake++ // it left its due time
		}
		t.win(carillon.Change{Runs: []carillon.Run{claimed}})
		want = append(want, run.ID)
	}
	for _, limit := range []int{1, 3, 1000} {
		var got []carillon.RunID
		q := carillon.WakeQuery{Held: true, Until: t.now + 500, Limit: limit}
		for more, pages := true, 0; more; pages++ {
			t.goesOn(pages)
			page := t.wakes(q)
			for i := range page {
				if q.Wants(&page[i]) {
					got = append(got, page[i].ID)
				}
				q.After = page[i].WakePos()
			}
			more = q.More(page)
		}
		t.equal("held runs", got, want[:7])
	}
}
