package porttest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/carillon-run/carillon"
)

var storeRows = []storeCase{
	{"a submitted job and its run are read back as they were given", func(t *storeTest) {
		job, run := t.submit(nil)
		t.equal("job", t.job(job.ID), &job)
		t.equal("run", t.run(run.ID), &run)
	}},
	{"every field of a definition survives", storeWholeDefinition},
	{"every field of an unfinished run survives an insert and an update", storeWholeRun},
	{"every field of an ended run survives in history and among the dead letters", storeWholeRecord},
	{"what a run is born with stays when it is updated", storeBorn},
	{"what was given is neither changed nor kept by reference", storeCopies},
	{"every write raises the revision by one", storeRevs},
	{"every version of a definition stays readable, and 0 is the latest", storeVersions},
	{"a definition is written once for its version", storeVersionOnce},
	{"a run shows the name, type and owner that its job has now, a record those it ended with", storeAbout},
	{"an ended run leaves the hot table for history", storeEnded},
	{"a run that ended without ever waiting is recorded", storeNeverWaited},
	{"a name that history has may be used again, and then means the new run", storeNameAgain},
	{"a failed run is a dead letter too, until it is retried", storeDead},
	{"the last result and the last checkpoint are kept, and only shown when asked for", storeOutputs},
	{"an empty result is a result", storeEmptyOutput},
	{"a payload of a run's own stays beside it, whatever else the run hands back", storeOwnPayload},
	{"records of attempts are kept in the order of their numbers, the last one of each", storeAttempts},
	{"records of attempts are read in pages", storeAttemptPages},
	{"a record of an attempt is written with its change or not at all", storeAttemptLost},
	{"what does not exist is left out", func(t *storeTest) {
		job, run := t.submit(nil)
		t.equal("job", t.jobAt(job.ID, 7), (*carillon.Job)(nil))
		t.equal("job", t.job(job.ID+1), (*carillon.Job)(nil))
		t.equal("run", t.run(carillon.RunID{Job: job.ID, Due: run.ID.Due + 1}), (*carillon.Run)(nil))
	}},
}

// storeWholeDefinition fills every field there is, so that it finds a field that was added later and that a
// store forgets.
func storeWholeDefinition(t *storeTest) {
	for kind, target := range TargetKinds() {
		job := t.newJob(nil)
		n := 0
		fill(reflect.ValueOf(&job.Definition).Elem(), &n)
		targets := reflect.ValueOf(&job.Target).Elem()
		for other := range targets.NumField() {
			if other != kind {
				targets.Field(other).SetZero()
			}
		}
		job.Schedule.Cron, job.Schedule.Timezone = "0 3 * * *", "Europe/Berlin"
		job.Unique.Key += target // each job has a key of its own
		c := carillon.Submit(job, t.now)
		c.Runs[0].ID.Due = t.now // whatever schedule fill made
		t.win(c)
		job.Rev = 1
		got := t.job(job.ID)
		t.equal(target, got, job)
		if got != nil && shared(reflect.ValueOf(got.Definition), reflect.ValueOf(job.Definition)) {
			t.Errorf("%s: the store returned a map, a list or a pointer that was given to it: want a copy",
				target)
		}
	}
}

// shared says that two values have a map, a list or a pointer in common.
func shared(a, b reflect.Value) bool {
	switch a.Kind() {
	case reflect.Struct:
		for i := range a.NumField() {
			if a.Type().Field(i).IsExported() && shared(a.Field(i), b.Field(i)) {
				return true
			}
		}
	case reflect.Pointer:
		if a.IsNil() || b.IsNil() || a.Type().Elem().Size() == 0 {
			return false
		}
		return a.Pointer() == b.Pointer() || shared(a.Elem(), b.Elem())
	case reflect.Map, reflect.Slice:
		return a.Len() > 0 && a.Pointer() == b.Pointer()
	}
	return false
}

// fill gives every exported field its own value that is not zero and survives JSON.
func fill(v reflect.Value, n *int) {
	*n++
	if node, is := v.Addr().Interface().(*carillon.WorkflowNode); is { // a definition has a target, and so on
		fillNode(node, *n)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i), n)
			}
		}
		switch v := v.Addr().Interface().(type) {
		case *carillon.Limit: // a rate is a text, and operators' limits are no part of a definition
			v.Rate, v.Of = carillon.Rate{Starts: *n, Per: time.Hour}, ""
		case *carillon.HookJob: // inside of other JSON
			v.Payload = []byte(`{"n":[1,2.50]}`)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, n)
		fill(value, n)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte(`{"n": [1, 2.50]}`))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0), n)
		fill(v.Index(1), n)
	case reflect.String:
		v.SetString("text " + string(rune('a'+*n)) + ` é <&> "`)
	case reflect.Float64:
		v.SetFloat(0.375)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int64:
		v.SetInt(int64(*n) * 1_000_000_000) // whole milliseconds as a duration, and a time after 1970
	default:
		v.SetInt(int64(*n))
	}
}

// fillNode makes a node of a workflow that was admitted, with values that are not usual.
func fillNode(node *carillon.WorkflowNode, n int) {
	text := fmt.Sprintf(`{"name": "node%d", "type": "é", "priority": 0, "queue": "other", "payload": {"a":1.50},
  "labels": {"a": "b"}, "needs": {"gpu": "yes"}, "timeout": "3s", "after": [{"node": "x", "on": "any"}],
  "join": "any", "map": "${payload.a}", "retry": {"max_attempts": 7, "jitter": 0},
  "limits": [{"key": "a", "concurrency": 3, "weight": 1}], "target": {"wait": {"for": "1s"}}}`, n)
	if err := json.Unmarshal([]byte(text), node); err != nil {
		panic(err)
	}
}

func storeWholeRun(t *storeTest) {
	job, _ := t.submit(nil)
	run := sample(int(job.ID), t.now)
	run.Rev = 0
	t.win(carillon.Change{Runs: []carillon.Run{run}})
	run.Rev, run.About = 1, &carillon.About{Name: job.Name, Type: job.Type, Owner: job.Owner}
	t.equal("inserted", t.run(run.ID), &run)
	run.Needs, run.Share, run.Hold, run.Slots = ":command", "other", "limit/key/b", "key/a\nkey/b*2"
	run.Queue, run.Worker, run.Reason, run.Wake, run.Claimed, run.Started = "slow", "w2", "exit code 2",
		t.now+5, t.now+1, t.now+2
	run.Version, run.Attempt, run.Failures, run.Losses, run.Crashes = 3, 5, 3, 2, 2
	run.State, run.Priority = carillon.StateRunning, 9
	run.Flags = ^carillon.Flags(0) // also those that no rule uses yet
	t.win(carillon.Change{Runs: []carillon.Run{run}})
	run.Rev = 2
	t.equal("updated", t.run(run.ID), &run)
}

func storeWholeRecord(t *storeTest) {
	run := sample(1000, 0)
	run.Rev, run.State, run.Flags = 0, carillon.StateFailed, 0
	run.Needs, run.Share, run.Hold, run.Slots = "", "", "", ""
	run.About = &carillon.About{Name: "nightly", Type: "report", Owner: "anna"}
	run.Until, run.Ended, run.Expires, run.DeadExpires = t.now+1, t.now+2, t.now+3, t.now+4
	t.win(carillon.Change{Runs: []carillon.Run{run}})
	record, letter := run, run
	record.DeadExpires, letter.Expires = 0, 0
	t.equal("record", t.run(run.ID), &record)
	t.equal("records", t.findRuns(carillon.RunQuery{}), []carillon.Run{record})
	t.equal("dead letters", t.findRuns(carillon.RunQuery{Dead: true}), []carillon.Run{letter})
}

func storeBorn(t *storeTest) {
	_, run := t.submit(every)
	want := run
	want.Rev, want.Worker = 2, "w"
	run.Worker = "w"
	run.Namespace, run.Covers, run.RetryOf, run.Seq, run.Flags = "other", 1, 2, 3,
		run.Flags&^carillon.FlagAdditional
	t.win(carillon.Change{Runs: []carillon.Run{run}})
	t.equal("run", t.run(run.ID), &want)
}

// every makes a recurring job.
func every(j *carillon.Job) { j.Schedule.Every = carillon.Duration(60e9) }

func storeCopies(t *storeTest) {
	job := t.newJob(func(j *carillon.Job) {
		j.Labels = map[string]string{"team": "a"}
		j.Target = carillon.Target{Command: &carillon.Command{Argv: []string{"true"}}}
	})
	c := carillon.Submit(job, t.now)
	c.Runs[0].Output = &carillon.Output{Result: []byte("one")}
	c.Guards = []carillon.Guard{{Namespace: "default", Key: "k", Value: []byte("one")}}
	t.win(c)
	if job.Rev != 0 || c.Runs[0].Rev != 0 || c.Guards[0].Rev != 0 {
		t.Fatal("commit changed what it was given")
	}
	job.Labels["team"], job.Target.Command.Argv[0], job.Payload[2] = "b", "false", 'X'
	c.Runs[0].About.Name, c.Runs[0].Output.Result[0], c.Guards[0].Value[0] = "X", 'X', 'X'
	for range 2 { // a reader must not change it for the next reader either
		got, run, guard := t.job(job.ID), t.run(c.Runs[0].ID), t.guard("default", "k")
		t.equal("stored", []string{
			got.Labels["team"], got.Target.Command.Argv[0], string(got.Payload), run.About.Name,
			string(run.Output.Result), string(guard.Value),
		}, []string{"a", "true", `{"to":"anna"}`, "mail.send", "one", "one"})
		got.Labels["team"], got.Target.Command.Argv[0], got.Payload[2] = "c", "none", 'Y'
		run.About.Name, run.Output.Result[0], guard.Value[0] = "Y", 'Y', 'Y'
	}
}

func storeRevs(t *storeTest) {
	job, run := t.submit(every)
	guard := *t.guard(job.Namespace, job.ID.OverlapKey())
	for rev := int32(1); rev < 4; rev++ {
		t.equal(
			"revisions",
			[]int32{t.job(job.ID).Rev, t.run(run.ID).Rev, t.guard(guard.Namespace, guard.Key).Rev},
			[]int32{rev, rev, rev},
		)
		job.Rev, run.Rev, guard.Rev = rev, rev, rev
		t.win(carillon.Change{Job: &job, Runs: []carillon.Run{run}, Guards: []carillon.Guard{guard}})
	}
}

func storeVersions(t *storeTest) {
	first, run := t.submit(func(j *carillon.Job) { j.Labels = map[string]string{"team": "a"} })
	second := first
	second.Version, second.Updated, second.Name, second.Payload, second.Labels = 2, t.now+
		1, "renamed", []byte(`2`), map[string]string{"team": "b"}
	run.Version = 2
	t.win(carillon.Change{Job: &second, Runs: []carillon.Run{run}})
	third := second
	third.Rev, third.Version, third.Payload, third.State = 2, 3, nil, carillon.JobPaused
	t.win(carillon.Change{Job: &third})
	third.Rev = 3
	t.equal("latest", t.job(first.ID), &third)
	for _, was := range []carillon.Job{first, second, third} {
		want := third // all but the definition is as it is now
		want.Version, want.Definition = was.Version, was.Definition
		t.equal("version", t.jobAt(first.ID, was.Version), &want)
	}
	t.equal("run", t.run(run.ID).Version, int32(2))
}

func storeVersionOnce(t *storeTest) {
	job, _ := t.submit(nil)
	other := job
	other.Name, other.Payload, other.State, other.Updated = "other", []byte(`0`), carillon.JobPaused, t.now+1
	t.win(carillon.Change{Job: &other})
	job.Rev, job.State, job.Updated = 2, carillon.JobPaused, t.now+1
	t.equal("job", t.job(job.ID), &job)
}

func storeAbout(t *storeTest) {
	job, run := t.submit(nil)
	_, ended := t.finished(carillon.StateSucceeded, nil)
	job.Version, job.Name, job.Type, job.Owner = 2, "renamed", "report", "anna"
	t.win(carillon.Change{Job: &job})
	t.equal("unfinished", t.run(run.ID).About, &carillon.About{
		Name: "renamed", Type: "report", Owner: "anna",
	})
	t.equal("ended", t.run(ended.ID).About, &carillon.About{
		Name: "mail.send", Type: "mail.send", Owner: "default",
	})
}

func storeEnded(t *storeTest) {
	for _, state := range []carillon.State{
		carillon.StateSucceeded, carillon.StateFailed, carillon.StateCanceled, carillon.StateSkipped,
	} {
		_, run := t.finished(state, nil)
		t.equal("record", t.run(run.ID), &run)
	}
	t.equal("unfinished", t.wakes(carillon.WakeQuery{Until: carillon.Never}), []carillon.Run(nil))
}

func storeNeverWaited(t *storeTest) {
	job, _ := t.submit(every)
	skipped := carillon.NewRun(&job, t.now+1).End(carillon.StateSkipped, "missed", t.now)
	t.win(carillon.Change{Job: &job, Runs: []carillon.Run{skipped}})
	skipped.Flags = 0
	t.equal("record", t.run(skipped.ID), &skipped)
}

func storeNameAgain(t *storeTest) {
	job, run := t.finished(carillon.StateFailed, nil)
	again := carillon.NewRun(&job, run.ID.Due)
	again.Flags |= carillon.FlagAdditional
	t.win(carillon.Change{Job: &job, Runs: []carillon.Run{again}})
	again.Rev = 1
	t.equal("unfinished", t.run(run.ID), &again)
	t.now++
	ended := t.end(again, carillon.StateFailed)
	t.equal("ended", t.run(run.ID), &ended)
	t.equal("both", t.findRuns(carillon.RunQuery{Job: job.ID, Limit: 1}), []carillon.Run{ended, run})
	t.equal("the last one's letter", t.findRuns(carillon.RunQuery{Dead: true}), []carillon.Run{ended})
}

func storeDead(t *storeTest) {
	job, run := t.finished(carillon.StateFailed, nil)
	t.equal("dead letters", t.findRuns(carillon.RunQuery{Dead: true}), []carillon.Run{run})
	retry := carillon.NewRun(&job, run.ID.Due+1)
	retry.Flags, retry.RetryOf = carillon.FlagAdditional, run.ID.Due
	t.win(carillon.Change{Job: &job, Runs: []carillon.Run{retry}, Retried: []carillon.RunID{run.ID}})
	t.equal("dead letters", t.findRuns(carillon.RunQuery{Dead: true}), []carillon.Run(nil))
	t.equal("record", t.run(run.ID), &run)
}

func storeOutputs(t *storeTest) {
	_, run := t.submit(nil)
	put := func(out carillon.Output) {
		run.Output = &out
		t.win(carillon.Change{Runs: []carillon.Run{run}})
		run.Rev++
	}
	t.equal("none", t.run(run.ID).Output, (*carillon.Output)(nil))
	put(carillon.Output{Checkpoint: []byte("10 %")})
	put(carillon.Output{Checkpoint: []byte("20 %")})
	t.equal("checkpoint", t.run(run.ID).Output, &carillon.Output{Checkpoint: []byte("20 %")})
	put(carillon.Output{Result: []byte("done")})
	run.Output = nil
	run = t.end(run, carillon.StateSucceeded)
	t.equal("ended", t.run(run.ID).Output, &carillon.Output{
		Result: []byte("done"), Checkpoint: []byte("20 %"),
	})
	runs, err := t.store.Runs(t.Context(), []carillon.RunID{run.ID}, false)
	t.must(err)
	t.equal("not asked for", runs[0].Output, (*carillon.Output)(nil))
	t.equal("not in lists", t.findRuns(carillon.RunQuery{})[0].Output, (*carillon.Output)(nil))
}

func storeEmptyOutput(t *storeTest) {
	_, run := t.submit(nil)
	run.Output = &carillon.Output{Result: []byte{}}
	t.win(carillon.Change{Runs: []carillon.Run{run}})
	out := t.run(run.ID).Output
	if out == nil || out.Result == nil || out.Checkpoint != nil || !slices.Equal(out.Result, []byte{}) {
		t.Fatalf("got %+v", out)
	}
}

func storeOwnPayload(t *storeTest) {
	job, run := t.submit(nil)
	own := carillon.NewRun(&job, run.ID.Due+1)
	own.Flags |= carillon.FlagAdditional | carillon.FlagOwnPayload
	own.Output = &carillon.Output{Payload: []byte(`{"n":1, "m":"ü"}`)}
	t.win(carillon.Change{Job: &job, Runs: []carillon.Run{own}})
	own.Rev = 1
	given := own.Output.Payload
	t.equal("own", t.run(own.ID).Output, &carillon.Output{Payload: given})
	t.equal("of the other run", t.run(run.ID).Output, (*carillon.Output)(nil))
	if got := t.run(own.ID); !got.Has(carillon.FlagOwnPayload) || t.run(run.ID).Has(carillon.FlagOwnPayload) {
		t.Errorf("the flags are %b", got.Flags)
	}
	own.Output = &carillon.Output{Checkpoint: []byte("c")}
	t.win(carillon.Change{Runs: []carillon.Run{own}})
	own.Rev, own.Output = 2, nil
	own = t.end(own, carillon.StateFailed)
	kept := &carillon.Output{Checkpoint: []byte("c"), Payload: given}
	t.equal("after the end", t.run(own.ID).Output, kept)
	t.now += 2 * hourMillis
	t.equal("forgotten", t.forget(carillon.Retention{Runs: hour.Runs}), 1)
	t.equal("of a dead letter", t.run(own.ID).Output, kept)
	t.equal("forgotten", t.forget(hour), 1)
	own.Rev, own.State = 0, carillon.StateWaiting
	job.Rev++
	// A new run of that name has nothing of the old one.
	t.win(carillon.Change{Job: &job, Runs: []carillon.Run{own}})
	t.equal("of the next of that name", t.run(own.ID).Output, (*carillon.Output)(nil))
}
