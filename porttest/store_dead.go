package porttest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/idgen"
)

var storeDeadLetters = []storeCase{
	{"dead letters are found by type, owner, queue, labels, end and error", storeDeadFilters},
	{"a search for few dead letters among many passes over the others", storeDeadRare},
	{"dead letters are grouped by the fingerprints of their reasons", storeDeadGroups},
	{"a dead letter leaves its group when it is retried, replaced or forgotten", storeDeadGroupsShrink},
	{"a change that loses leaves the groups as they are", storeDeadGroupsLost},
}

// die submits a job whose run fails for good.
func (t *storeTest) die(reason string, edit func(*carillon.Job)) carillon.Run {
	t.Helper()
	job, run := t.submit(edit)
	run = t.claim(run, "worker-1")
	run.About = &carillon.About{Name: job.Name, Type: job.Type, Owner: job.Owner}
	run = run.End(carillon.StateFailed, reason, t.now)
	t.win(carillon.Change{Runs: []carillon.Run{run}})
	run.Rev, run.Flags = 0, 0
	return run
}

// letters returns the runs of all pages.
func (t *storeTest) letters(f carillon.DeadFilter, limit int) (ids []carillon.RunID) {
	t.Helper()
	q := f.Query(carillon.DefaultNamespace)
	q.Limit = limit
	for {
		page, err := t.store.FindRuns(context.Background(), q)
		t.must(err)
		for i := range page.Runs {
			ids = append(ids, page.Runs[i].ID)
		}
		if q.After = page.Next; q.After == "" {
			return ids
		}
	}
}

func storeDeadFilters(t *storeTest) {
	refused := t.die("dial tcp 10.0.0.1:80: Connection refused", func(j *carillon.Job) {
		j.Owner, j.Queue, j.Labels = "ann", "net", map[string]string{"team": "a", "tier": ""}
	})
	t.now += 1000
	again := t.die("dial tcp 10.0.0.2:81: Connection refused", func(j *carillon.Job) {
		j.Type, j.Labels = "mail.read", map[string]string{"team": "a"}
	})
	t.now += 1000
	status := t.die("exit status 3", func(j *carillon.Job) { j.Owner, j.Type = "ann", "report" })
	elsewhere := t.die("exit status 3", func(j *carillon.Job) { j.Namespace = "elsewhere" })
	print, _ := carillon.FingerprintOf(refused.Reason)
	other, _ := carillon.FingerprintOf("no letter has this reason")
	type f = carillon.DeadFilter
	type labelsOf = map[string]string
	for name, c := range map[string]struct {
		filter f
		want   []carillon.Run
	}{
		"all":                    {f{}, []carillon.Run{status, again, refused}},
		"job":                    {f{Job: again.ID.Job}, []carillon.Run{again}},
		"job of another":         {f{Job: elsewhere.ID.Job}, nil},
		"type":                   {f{Type: "mail.send"}, []carillon.Run{refused}},
		"type with a star":       {f{Type: "mail.*"}, []carillon.Run{again, refused}},
		"type and owner":         {f{Type: "report", Owner: "ann"}, []carillon.Run{status}},
		"type that is not there": {f{Type: "mail"}, nil},
		"owner":                  {f{Owner: "ann"}, []carillon.Run{status, refused}},
		"queue":                  {f{Queue: "net"}, []carillon.Run{refused}},
		"label":                  {f{Labels: labelsOf{"team": "a"}}, []carillon.Run{again, refused}},
		"labels":                 {f{Labels: labelsOf{"team": "a", "tier": ""}}, []carillon.Run{refused}},
		"label of another value": {f{Labels: labelsOf{"team": "b"}}, nil},
		"label and type": {
			f{Type: "mail.read", Labels: labelsOf{"team": "a"}}, []carillon.Run{again},
		},
		"label and fingerprint": {
			f{Fingerprint: print, Labels: labelsOf{"tier": ""}}, []carillon.Run{refused},
		},
		"label and job":            {f{Job: status.ID.Job, Labels: labelsOf{"team": "a"}}, nil},
		"error":                    {f{Error: "connection REFUSED"}, []carillon.Run{again, refused}},
		"error with its details":   {f{Error: "10.0.0.2:81"}, []carillon.Run{again}},
		"fingerprint":              {f{Fingerprint: print}, []carillon.Run{again, refused}},
		"fingerprint and type":     {f{Fingerprint: print, Type: "mail.read"}, []carillon.Run{again}},
		"fingerprint and job":      {f{Fingerprint: print, Job: status.ID.Job}, nil},
		"fingerprint of no letter": {f{Fingerprint: other}, nil},
		"from":                     {f{From: again.Ended}, []carillon.Run{status, again}},
		"to":                       {f{To: again.Ended}, []carillon.Run{refused}},
		"from and to":              {f{From: again.Ended, To: again.Ended + 1}, []carillon.Run{again}},
	} {
		var want []carillon.RunID
		for i := range c.want {
			want = append(want, c.want[i].ID)
		}
		for _, limit := range []int{1, 2, 100} {
			t.equal(fmt.Sprintf("%s by %d", name, limit), t.letters(c.filter, limit), want)
		}
	}
}

func storeDeadRare(t *storeTest) {
	rare := t.die("rare", func(j *carillon.Job) { j.Owner, j.Labels = "ann", map[string]string{"a": "b"} })
	for i := range 50 {
		t.die(fmt.Sprint("frequent ", i), nil)
	}
	for _, f := range []carillon.DeadFilter{
		{Owner: "ann"},
		{Error: "rare"},
		{Labels: map[string]string{"a": "b"}},
		{To: rare.Ended + 1, Owner: "ann"},
	} {
		t.equal(fmt.Sprint(f), t.letters(f, 3), []carillon.RunID{rare.ID})
	}
}

// deadGroups returns the groups by their errors: groups with as many letters come in any order.
func (t *storeTest) deadGroups(q carillon.DeadGroupQuery) (groups []carillon.DeadGroup) {
	t.Helper()
	q.Namespace = cmp.Or(q.Namespace, carillon.DefaultNamespace)
	groups, err := t.store.DeadGroups(context.Background(), q)
	t.must(err)
	byCount := func(a, b carillon.DeadGroup) int { return cmp.Compare(b.Count, a.Count) }
	if !slices.IsSortedFunc(groups, byCount) {
		t.Errorf("groups are not sorted by their counts: %v", groups)
	}
	slices.SortStableFunc(groups, func(a, b carillon.DeadGroup) int { return cmp.Compare(a.Error, b.Error) })
	return groups
}

func storeDeadGroups(t *storeTest) {
	t.equal("groups", len(t.deadGroups(carillon.DeadGroupQuery{})), 0)
	first := t.now
	t.die("exit status 1", func(j *carillon.Job) { j.Type = "report" })
	t.now += 1000
	for i := range 3 {
		t.die(fmt.Sprintf("open /tmp/%d: no such file", i), nil)
		t.now += 1000
	}
	t.die("exit status 2", nil)
	last := t.now
	t.die("exit status 3", nil)
	t.die("", nil)
	t.die("exit status 4", func(j *carillon.Job) { j.Namespace = "elsewhere" })
	t.finished(carillon.StateSucceeded, nil)
	t.finished(carillon.StateCanceled, nil)
	group := func(reason, sample string, n int) carillon.DeadGroup {
		print, text := carillon.FingerprintOf(reason)
		return carillon.DeadGroup{
			Fingerprint: print, Error: text, Sample: sample, Count: n, First: first, Last: last,
			Types: []string{"mail.send"},
		}
	}
	status := group("exit status 9", "exit status 3", 3)
	status.Types = []string{"mail.send", "report"}
	open := group("open /x: no such file", "open /tmp/2: no such file", 3)
	open.First, open.Last = first+1000, first+3000
	none := group("", "", 1)
	none.First = last
	t.equal("groups", t.deadGroups(carillon.DeadGroupQuery{}), []carillon.DeadGroup{none, status, open})
	t.equal("at most", len(t.deadGroups(carillon.DeadGroupQuery{Limit: 2})), 2)
	status.Types, status.Count, status.First = []string{"mail.send"}, 2, first+4000
	t.equal("of a type", t.deadGroups(carillon.DeadGroupQuery{Type: "mail.send"}),
		[]carillon.DeadGroup{none, status, open})
	t.equal("of no type", len(t.deadGroups(carillon.DeadGroupQuery{Type: "mail"})), 0)
	t.equal("elsewhere", t.deadGroups(carillon.DeadGroupQuery{Namespace: "elsewhere"})[0].Count, 1)
}

// counts returns how many letters each group has.
func (t *storeTest) groupCounts() map[string]int {
	t.Helper()
	counts := map[string]int{}
	for _, g := range t.deadGroups(carillon.DeadGroupQuery{}) {
		counts[g.Error] = g.Count
	}
	return counts
}

func storeDeadGroupsShrink(t *storeTest) {
	var letters []carillon.Run
	for i := range 4 {
		letters = append(letters, t.die(fmt.Sprint("exit status ", i), func(j *carillon.Job) {
			j.Retention.DeadLetters = carillon.Duration(time.Duration(i/3) * 10 * time.Hour)
		}))
	}
	t.equal("groups", t.groupCounts(), map[string]int{"exit status #": 4})
	job := t.job(letters[0].ID.Job)
	t.win(carillon.Change{Job: job, Retried: []carillon.RunID{letters[0].ID}})
	t.equal("after a retry", t.groupCounts(), map[string]int{"exit status #": 3})

	// The record of a run that never waited takes the place of a letter.
	again := letters[1]
	again.Reason = "killed"
	t.win(carillon.Change{Job: t.job(again.ID.Job), Runs: []carillon.Run{again}})
	t.equal("after it died again", t.groupCounts(), map[string]int{"exit status #": 2, "killed": 1})
	t.equal("letters", len(t.letters(carillon.DeadFilter{}, 10)), 3)

	t.now += hourMillis
	t.forget(carillon.Retention{DeadLetters: carillon.Duration(time.Hour)})
	want := map[string]int{}
	for _, letter := range t.findRuns(carillon.RunQuery{Namespace: carillon.DefaultNamespace, Dead: true}) {
		_, text := carillon.FingerprintOf(letter.Reason)
		want[text]++
	}
	t.equal("after some were forgotten", t.groupCounts(), want)
	t.now += 10 * hourMillis
	t.forget(carillon.Retention{DeadLetters: carillon.Duration(time.Hour)})
	t.equal("after all were", slices.Collect(maps.Keys(t.groupCounts())), []string(nil))
}

func storeDeadGroupsLost(t *storeTest) {
	letter := t.die("exit status 1", nil)
	_, run := t.submit(nil)
	run = t.claim(run, "worker-1")
	stale := run.End(carillon.StateFailed, "exit status 2", t.now)
	stale.Rev--
	t.lose(carillon.Change{Runs: []carillon.Run{stale}})
	job := t.job(letter.ID.Job)
	job.Rev--
	t.lose(carillon.Change{Job: job, Retried: []carillon.RunID{letter.ID}})
	gone := carillon.RunID{Job: letter.ID.Job, Due: letter.ID.Due + 1}
	t.lose(carillon.Change{Job: t.job(letter.ID.Job), Retried: []carillon.RunID{letter.ID, gone}})
	// One that wins stands between them.
	ended := run.End(carillon.StateFailed, "killed", t.now)
	t.equal("lost", t.commit(
		carillon.Change{Job: job, Retried: []carillon.RunID{letter.ID}},
		carillon.Change{Runs: []carillon.Run{ended}},
	), []int{0})
	t.equal("groups", t.groupCounts(), map[string]int{"exit status #": 1, "killed": 1})
}

// OlderDeadLetters checks that a store fills in what letters of older versions lack. age takes the
// fingerprints and groups from the store, as if an older version had written all letters. reopen returns the
// store as it is opened after that, or after it has removed what it no longer keeps.
func OlderDeadLetters(t *testing.T, store carillon.Store, age func(), reopen func() carillon.Store) {
	of := &storeTest{T: t, store: store, ids: idgen.New(1, carillon.Never), now: epoch}
	var changes []carillon.Change
	for i := range 1200 { // more than a store fills in at once
		job := of.newJob(nil)
		submit := carillon.Submit(job, of.now)
		run := submit.Runs[0].Claim("worker-1", of.now)
		run.Rev, run.About = 1, &carillon.About{Type: job.Type}
		run = run.End(carillon.StateFailed, []string{"exit status 1", "open /a: gone", ""}[i%3], of.now)
		of.win(submit)
		changes = append(changes, carillon.Change{Runs: []carillon.Run{run}})
	}
	of.win(changes...)
	want := of.groupCounts()
	of.equal("groups", want, map[string]int{"exit status #": 400, "open /…: gone": 400, "": 400})
	age()
	of.store = reopen()
	of.equal("groups of letters of an older version", of.groupCounts(), want)
	print, _ := carillon.FingerprintOf("exit status 9")
	of.equal("letters", len(of.letters(carillon.DeadFilter{Fingerprint: print}, 100)), 400)
	of.now += hourMillis
	for of.forget(carillon.Retention{DeadLetters: carillon.Duration(time.Hour)}) > 0 {
	}
	of.equal("after all were forgotten", of.groupCounts(), map[string]int{})
}
