package carillon_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
)

// keyOf is the guard of a job's unique key, as the store has it since the submit.
func keyOf(job *carillon.Job) carillon.Guard {
	guard := job.TakeKey(carillon.Guard{}, epoch)
	guard.Rev = guard.First
	return guard
}

func withKey(edits ...func(*carillon.Definition)) func(*carillon.Definition) {
	return func(d *carillon.Definition) {
		d.Unique = &carillon.Unique{Key: "invoice/7"}
		for _, edit := range edits {
			edit(d)
		}
	}
}

func forAnHour(d *carillon.Definition) { d.Unique.For = carillon.Duration(time.Hour) }

func TestAUniqueKeyIsAdmitted(t *testing.T) {
	if got := define(t, withKey()).Unique; *got != (carillon.Unique{
		Key: "invoice/7", Until: carillon.UntilEnded, OnConflict: carillon.ConflictReturn,
	}) {
		t.Errorf("the defaults are %+v", got)
	}
	if got := define(t, withKey(forAnHour)).Unique; *got != (carillon.Unique{
		Key: "invoice/7", For: carillon.Duration(time.Hour), OnConflict: carillon.ConflictReturn,
	}) {
		t.Errorf("with a time %+v", got)
	}
	for want, u := range map[string]carillon.Unique{
		`unique.key: it is empty: want 1 to 100 characters of a-z A-Z 0-9 . _ - / @, the first a letter or digit`: {
			For: carillon.Duration(time.Hour),
		},
		`unique.key: "a b" is not valid: want 1 to 100 char`: {Key: "a b"},
		`unique.key: "` + strings.Repeat("x", 60) + `…" is`:  {Key: strings.Repeat("x", 101)},
		`unique: for and until are given: want only one of for or until; none means until ended`: {
			Key: "a", For: carillon.Duration(time.Hour), Until: carillon.UntilEnded,
		},
		`unique.until: "done" is not valid: want ended; for a time give for`: {Key: "a", Until: "done"},
		`unique.for: "999ms" is not valid: want 1s to 365d`: {
			Key: "a", For: carillon.Duration(999 * time.Millisecond),
		},
		`unique.for: "366d" is not valid: want 1s to 365d`: {Key: "a", For: carillon.Duration(366 * 24 * time.Hour)},
		`unique.for: "-1h" is not valid: want 1s to 365d`:  {Key: "a", For: carillon.Duration(-time.Hour)},
		`unique.on_conflict: "drop" is not valid: want return, replace or refuse`: {
			Key: "a", OnConflict: "drop",
		},
	} {
		def := carillon.Definition{Type: "test", Target: carillon.Target{Handler: &carillon.Handler{}}, Unique: &u}
		if err := def.Admit(epoch); err == nil || !strings.HasPrefix(err.Error(), want) ||
			!errors.Is(err, carillon.ErrInvalid) {
			t.Errorf("%+v: %v\nwant %s", u, err, want)
		}
	}
}

func TestAnEditLeavesTheUniqueKeyOfAJob(t *testing.T) {
	was := define(t, withKey())
	for field, edit := range map[string]func(*carillon.Unique){
		"unique.key":   func(u *carillon.Unique) { u.Key = "another" },
		"unique.for":   func(u *carillon.Unique) { u.For = carillon.Duration(time.Hour) },
		"unique.until": func(u *carillon.Unique) { u.Until = "" },
		"":             func(u *carillon.Unique) { u.OnConflict = carillon.ConflictReplace },
	} {
		def, unique := was, *was.Unique
		edit(&unique)
		def.Unique = &unique
		err := def.AdmitEdit(&was, epoch)
		var fault *carillon.FieldError
		if errors.As(err, &fault); field == "" != (err == nil) || err != nil && fault.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}

func TestASubmitTakesItsKey(t *testing.T) {
	job := newJob(t, withKey(forAnHour))
	c := carillon.Submit(job, minute(1))
	guard := carillon.Guards(c.Guards).Of(carillon.GuardUnique)
	if guard == nil || guard.Key != "unique/invoice/7" || guard.Rev != 0 || guard.Expires != minute(61) {
		t.Fatalf("%+v", guard)
	}
	if id, held := guard.KeyHolder(minute(60)); id != job.ID || !held {
		t.Errorf("%s holds the key: %t", id, held)
	}
	if _, held := guard.KeyHolder(minute(61)); held {
		t.Error("the key is held for more than an hour")
	}
	if guard.RulesRuns() {
		t.Error("it rules runs")
	}
	other := *job
	other.ID++
	if a, b := guard.First, other.TakeKey(carillon.Guard{}, epoch).First; a < 1 || a == b {
		t.Errorf("guards of two jobs begin with %d and %d", a, b)
	}
	if c := carillon.Submit(newJob(t, nil), epoch); len(c.Guards) != 0 {
		t.Errorf("a job without a key: %+v", c.Guards)
	}
}

// frees says whether a change frees the key that a job holds at minute 5.
func frees(t *testing.T, c carillon.Change, guard carillon.Guard) bool {
	t.Helper()
	was := guard
	for _, fold := range c.Folds {
		if fold.Key != guard.Key || fold.Namespace != guard.Namespace {
			t.Fatalf("folds %s", fold.Key)
		}
		next, ok := fold.Step(guard, minute(5))
		if !ok || string(next.Value) != string(guard.Value) {
			t.Fatalf("folded to %+v, %t", next, ok)
		}
		guard = next
	}
	_, still := guard.KeyHolder(minute(5))
	if !still && guard.Expires != minute(5) && guard.Expires != was.Expires {
		t.Errorf("freed at %s", guard.Expires)
	}
	return !still
}

func TestTheEndOfAJobFreesItsKey(t *testing.T) {
	end := func(job *carillon.Job, run carillon.Run, state carillon.State) carillon.Change {
		return carillon.EndChange(job, run.End(state, "", minute(5)), nil)
	}
	job := newJob(t, withKey())
	run := planned(job, minute(1)).Claim(worker, minute(1))
	followed, second := run, run
	followed.Flags |= carillon.FlagPlanned
	second.Seq = 1
	manualRun := manual(job, minute(2)).Claim(worker, minute(2))
	recurring := newJob(t, withKey(minutely(carillon.OverlapAllow)))
	timed := newJob(t, withKey(forAnHour))
	plain := newJob(t, nil)
	for name, c := range map[string]struct {
		job    *carillon.Job
		change carillon.Change
		want   bool
	}{
		"a success":           {job, end(job, run, carillon.StateSucceeded), true},
		"a failure for good":  {job, end(job, run, carillon.StateFailed), true},
		"a further attempt":   {job, carillon.EndChange(job, retrying(run, minute(6)), nil), false},
		"a manual run":        {job, end(job, manualRun, carillon.StateSucceeded), false},
		"another run follows": {job, end(job, followed, carillon.StateSucceeded), false},
		"another run began":   {job, end(job, second, carillon.StateSucceeded), false},
		"a recurring job": {
			recurring, end(recurring, planned(recurring, minute(1)), carillon.StateSucceeded), false,
		},
		"a key for an hour": {timed, end(timed, planned(timed, minute(1)), carillon.StateSucceeded), false},
	} {
		if got := frees(t, c.change, keyOf(c.job)); got != c.want {
			t.Errorf("%s: frees the key: %t", name, got)
		}
	}
	if c := end(plain, planned(plain, minute(1)), carillon.StateSucceeded); len(c.Folds) > 0 {
		t.Error("a job without a key folds a guard")
	}
	other := *job
	other.ID++
	if frees(t, end(job, run, carillon.StateSucceeded), keyOf(&other)) {
		t.Error("it frees the key of another job")
	}
	none, ok := end(job, run, carillon.StateSucceeded).Folds[0].Step(carillon.Guard{}, minute(5))
	if !ok || none.Value != nil || none.Expires != 0 {
		t.Errorf("without a guard: %+v, %t", none, ok)
	}
}

func TestACancelFreesTheKeyOnceNoRunGoesOn(t *testing.T) {
	job, timed := newJob(t, withKey()), newJob(t, withKey(forAnHour))
	for name, c := range map[string]struct {
		job  *carillon.Job
		run  carillon.Run
		want bool
	}{
		"a run that waits":                    {job, planned(job, minute(9)), true},
		"a run that goes on":                  {job, claimed(planned(job, minute(1))), false},
		"for an hour, and a run that goes on": {timed, claimed(planned(timed, minute(1))), true},
	} {
		w := carillon.JobSnapshot{Job: *c.job, Runs: []carillon.Run{c.run}}
		change, err := w.Cancel(true, minute(5))
		if err != nil {
			t.Fatal(err)
		}
		if got := frees(t, change, keyOf(c.job)); got != c.want {
			t.Errorf("%s: frees the key: %t", name, got)
		}
	}
	w := carillon.JobSnapshot{Job: *job, Runs: []carillon.Run{planned(job, minute(9))}}
	if c, err := w.CancelRun(w.Runs[0].ID, minute(5)); err != nil || !frees(t, c, keyOf(job)) {
		t.Errorf("the cancel of its only run: %v", err)
	}
}

func TestASkippedOneOffFreesItsKey(t *testing.T) {
	job := newJob(t, withKey(func(d *carillon.Definition) {
		d.Misfire.Policy = carillon.MisfireSkip
		d.Schedule.At = minute(1)
	}))
	verdict, c := carillon.Candidate{Job: job, Run: planned(job, minute(1))}.Decide(minute(5))
	if verdict != carillon.VerdictEnd || !frees(t, c, keyOf(job)) {
		t.Errorf("missed: verdict %d", verdict)
	}
	job = newJob(t, withKey())
	run := planned(job, minute(4))
	run.Flags |= carillon.FlagGuarded
	verdict, c = carillon.Candidate{Job: job, Run: run, Guards: line(job, minute(3))}.Decide(minute(5))
	if verdict != carillon.VerdictEnd || !frees(t, c, keyOf(job)) {
		t.Errorf("skipped: verdict %d", verdict)
	}
}

// Whichever of the two ends first, the job goes on.
func TestAnEditThatAddsARunBesideABegunOneKeepsTheKey(t *testing.T) {
	for _, overlap := range []carillon.Overlap{carillon.OverlapSkip, carillon.OverlapAllow} {
		job := newJob(t, withKey(func(d *carillon.Definition) { d.Overlap = overlap }))
		run := planned(job, minute(1)).Claim(worker, minute(1))
		def := job.Definition
		def.Schedule = carillon.Schedule{At: minute(20)}
		c, err := carillon.JobSnapshot{Job: *job, Runs: []carillon.Run{run}}.Edit(def, minute(5))
		if err != nil || len(c.Runs) != 2 {
			t.Fatalf("%v: %v", err, tell(c))
		}
		for _, run := range c.Runs {
			end := carillon.EndChange(c.Job, run.End(carillon.StateSucceeded, "", minute(5)), nil)
			if frees(t, end, keyOf(job)) {
				t.Errorf("%s: the end of the run at %s frees the key", overlap, since(run.ID.Due))
			}
		}
	}
}

func TestAJobHoldsItsKeyWhileARunByItsSchedule(t *testing.T) {
	job, timed := newJob(t, withKey()), newJob(t, withKey(forAnHour))
	canceled := *job
	canceled.State = carillon.JobCanceled
	canceledTimed := *timed
	canceledTimed.State = carillon.JobCanceled
	run := planned(job, minute(1))
	for name, c := range map[string]struct {
		w    carillon.JobSnapshot
		want bool
	}{
		"waits":                           {carillon.JobSnapshot{Job: *job, Runs: []carillon.Run{run}}, true},
		"goes on":                         {carillon.JobSnapshot{Job: *job, Runs: []carillon.Run{claimed(run)}}, true},
		"has ended":                       {carillon.JobSnapshot{Job: *job}, false},
		"has ended, and a manual one not": {carillon.JobSnapshot{Job: *job, Runs: []carillon.Run{manual(job, minute(2))}}, false},
		"goes on after a cancel":          {carillon.JobSnapshot{Job: canceled, Runs: []carillon.Run{claimed(run)}}, true},
		"has ended, for an hour":          {carillon.JobSnapshot{Job: *timed}, true},
		"is canceled, for an hour":        {carillon.JobSnapshot{Job: canceledTimed, Runs: []carillon.Run{claimed(run)}}, false},
	} {
		guard := keyOf(&c.w.Job)
		if got := c.w.HoldsKey(&guard); got != c.want {
			t.Errorf("%s: holds the key: %t", name, got)
		}
	}
}

func TestASubmitReplacesAJobThatHasNotBegun(t *testing.T) {
	job := newJob(t, withKey(func(d *carillon.Definition) { d.Schedule.At = minute(2) }))
	next := define(t, withKey(forAnHour, func(d *carillon.Definition) {
		d.Schedule.At, d.Name = minute(7), "the last"
	}))
	w := carillon.JobSnapshot{Job: *job, Runs: []carillon.Run{planned(job, minute(2))}}
	c, replaced, err := w.Replace(next, keyOf(job), minute(1))
	if err != nil || !replaced {
		t.Fatal(replaced, err)
	}
	guard := carillon.Guards(c.Guards).Of(carillon.GuardUnique)
	if c.Job.Name != "the last" || c.Job.Version != 2 || guard.Rev != keyOf(job).Rev ||
		guard.Expires != minute(61) {
		t.Errorf("%+v, guard %+v", c.Job, guard)
	}
	due := c.Runs[len(c.Runs)-1]
	if due.ID.Due != minute(7) || due.State != carillon.StateWaiting || len(c.Runs) != 2 {
		t.Errorf("%v", tell(c))
	}
	run := planned(job, minute(2))
	canceled := *job
	canceled.State = carillon.JobCanceled
	recurring := newJob(t, withKey(minutely(carillon.OverlapAllow)))
	for name, w := range map[string]carillon.JobSnapshot{
		"a run that goes on":          {Job: *job, Runs: []carillon.Run{claimed(run)}},
		"a run between two attempts":  {Job: *job, Runs: []carillon.Run{retrying(run, minute(3))}},
		"one goes on, another waits":  {Job: *job, Runs: []carillon.Run{claimed(run), planned(job, minute(4))}},
		"no run":                      {Job: *job},
		"a canceled job":              {Job: canceled, Runs: []carillon.Run{claimed(run)}},
		"the last run of a recurring": {Job: *recurring, Runs: []carillon.Run{claimed(planned(recurring, minute(1)))}},
	} {
		c, replaced, err := w.Replace(next, keyOf(job), minute(1))
		if replaced || err != nil || c.Job != nil {
			t.Errorf("%s is replaced: %t, %v", name, replaced, err)
		}
	}
	w = carillon.JobSnapshot{Job: *recurring, Runs: []carillon.Run{
		claimed(planned(recurring, minute(1))), planned(recurring, minute(2)),
	}}
	if _, _, err := w.Replace(next, keyOf(recurring), minute(1)); !errors.Is(err, carillon.ErrInvalid) {
		t.Errorf("a one-time job for a recurring one: %v", err)
	}
	every := define(t, withKey(minutely(carillon.OverlapSkip)))
	if _, replaced, err := w.Replace(every, keyOf(recurring), minute(1)); !replaced || err != nil {
		t.Errorf("a recurring job whose run goes on: %t, %v", replaced, err)
	}
}

func TestARefusalSaysWhichJobHoldsTheKey(t *testing.T) {
	job, timed := newJob(t, withKey()), newJob(t, withKey(forAnHour))
	for want, guard := range map[string]carillon.Guard{
		"conflict: " + job.ID.String() + " holds the unique key invoice/7 until it has ended":             keyOf(job),
		"conflict: " + job.ID.String() + " holds the unique key invoice/7 until 2027-01-15T09:00:00.000Z": keyOf(timed),
	} {
		err := carillon.KeyHeld("invoice/7", &guard)
		if err.Error() != want || !errors.Is(err, carillon.ErrConflict) {
			t.Errorf("%v\nwant %s", err, want)
		}
	}
}
