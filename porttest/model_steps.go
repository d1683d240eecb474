package porttest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/carillon-run/carillon"
)

// The worlds are made of few names of each kind, so that changes collide.
var (
	namespaces = []string{"default", "other"}
	queues     = []string{"default", "slow"}
	priorities = []int{5, 9}
	needs      = []string{
		":command", ":http", "mail.send", needsOf("mail.send", map[string]string{"gpu": "a=b"}),
	}
	shares  = []string{"", "acme", "acme*3", "anna"}
	owners  = []string{"anna", "billing"}
	types   = []string{"mail.send", "report"}
	labels  = []string{"team", "env"}
	workers = []string{"worker-1", "worker-2"}
	keys    = []string{"a", "b"} // of limits
	reasons = []string{"it was so", "exit status 1", "exit status 2", "open /a: gone"}
)

// change makes a decision by the rules on what the model holds now. Seldom it makes one that the rules would
// not make.
func (w *world) change() (carillon.Change, bool) {
	switch n := w.rand.IntN(100); {
	case n < 22 || len(w.jobs) == 0:
		return w.submit(), true
	case n < 44:
		return w.claim()
	case n < 50:
		return w.park()
	case n < 72:
		return w.finish()
	case n < 90:
		return w.command()
	case n < 94:
		return w.guard(), true
	default:
		return w.hostile()
	}
}

func (w *world) submit() carillon.Change {
	job := w.job(w.definition())
	c := carillon.Submit(job, w.now)
	if run := &c.Runs[0]; !run.Has(carillon.FlagGuarded) && w.rand.IntN(5) == 0 { // preclaimed
		*run = run.Claim(pick(w.rand, workers...), w.now)
	}
	return c
}

func (w *world) job(def carillon.Definition) *carillon.Job {
	id, err := w.ids.Next(w.now)
	w.must(err)
	return &carillon.Job{ID: id, Namespace: pick(w.rand, namespaces...), Definition: def}
}

// definition returns an admitted definition of any kind.
func (w *world) definition() carillon.Definition {
	d := carillon.Definition{}
	d.Type, d.Owner, d.Queue, d.Priority = pick(w.rand, types...), pick(
		w.rand, owners...,
	), pick(w.rand, queues...), pick(w.rand, priorities...)
	d.FairBy, d.FairWeight = pick(w.rand, "", "acme", "owner"), pick[int32](w.rand, 0, 1, 3)
	d.Payload, _ = json.Marshal(map[string]int{"n": w.rand.IntN(1000)})
	d.Target = pick(w.rand,
		carillon.Target{Handler: &carillon.Handler{}},
		carillon.Target{
			Command: &carillon.Command{Argv: []string{"true", "<&>"}, Env: map[string]string{"A": "b"}},
		},
		carillon.Target{
			HTTP: &carillon.HTTP{URL: "https://example.com/", Headers: map[string]string{"X-A": "b"}},
		},
	)
	d.Schedule = pick(w.rand,
		carillon.Schedule{},
		carillon.Schedule{After: carillon.Duration(w.rand.IntN(120)) * carillon.Duration(time.Second)},
		carillon.Schedule{Cron: "*/2 * * * *", Timezone: "Europe/Berlin", MaxRuns: w.rand.IntN(5)},
		carillon.Schedule{Every: carillon.Duration(30 * time.Second)},
	)
	d.Overlap = pick(
		w.rand, carillon.OverlapSkip, carillon.OverlapQueue, carillon.OverlapQueueAll,
		carillon.OverlapReplace, carillon.OverlapAllow,
	)
	if w.rand.IntN(4) == 0 {
		d.Needs = map[string]string{"gpu": pick(w.rand, "true", "a=b")}
	}
	if w.rand.IntN(4) == 0 {
		d.Unique = &carillon.Unique{
			Key: fmt.Sprint("key", w.rand.IntN(20)), For: pick(w.rand, 0, carillon.Duration(time.Minute)),
		}
	}
	for _, key := range keys {
		if w.rand.IntN(4) == 0 {
			limit := carillon.Limit{Key: key, Concurrency: w.rand.IntN(3)}
			if limit.Concurrency == 0 {
				limit.Rate = carillon.Rate{Starts: 10, Per: time.Second}
			}
			d.Limits = append(d.Limits, limit)
		}
	}
	d.PauseAfter = pick[int32](w.rand, 0, 0, 2)
	if w.rand.IntN(4) == 0 {
		d.Retry.Rules = &carillon.RetryRules{{Match: "so$", Retry: true, MaxAttempts: 2}}
	}
	d.Misfire.Policy = pick(w.rand, carillon.MisfireSkip, carillon.MisfireOnce, carillon.MisfireAll)
	if w.rand.IntN(2) == 0 {
		d.Retry.MaxAttempts = 1
	}
	if w.rand.IntN(3) == 0 {
		d.Labels = map[string]string{pick(w.rand, labels...): pick(w.rand, labels...), "all": ""}
	}
	if w.rand.IntN(3) == 0 {
		d.Retention.Runs = carillon.Duration(w.rand.IntN(3)) * carillon.Duration(2*time.Minute)
		d.Retention.DeadLetters = carillon.Duration(w.rand.IntN(3)) * carillon.Duration(5*time.Minute)
	}
	w.must(d.Admit(w.now))
	return d
}

// claim decides about one of the due runs.
func (w *world) claim() (carillon.Change, bool) {
	due, err := w.model.Wakes(context.Background(), carillon.WakeQuery{Until: w.now, Limit: 1000})
	w.must(err)
	due = slices.DeleteFunc(due, func(r carillon.Run) bool { return r.State != carillon.StateWaiting })
	lined, err := w.model.Line(context.Background(), carillon.LineQuery{Lines: w.lines(), Until: w.now})
	w.must(err)
	if due = append(due, lined...); len(due) == 0 {
		return carillon.Change{}, false
	}
	run := pick(w.rand, due...)
	snapshot, ok := w.whole(run.ID.Job)
	if !ok {
		return carillon.Change{}, false
	}
	d := carillon.Candidate{
		Job: &snapshot.Job, Run: run, Guards: snapshot.Guards, Others: snapshot.Runs,
		Limits: snapshot.Job.Limits,
		Worker: pick(w.rand, workers...),
	}
	if run.Has(carillon.FlagGuarded) && d.Guards == nil {
		w.t.Fatalf("%s is guarded and has no guard", run.ID)
	}
	verdict, c := d.Decide(w.now)
	return c, verdict != carillon.VerdictHold
}

// park makes a due run wait in a line, of its job's limit or of another one.
func (w *world) park() (carillon.Change, bool) {
	due, err := w.model.Wakes(context.Background(), carillon.WakeQuery{Until: w.now, Limit: 1000})
	w.must(err)
	due = slices.DeleteFunc(due, func(r carillon.Run) bool { return r.State != carillon.StateWaiting })
	if len(due) == 0 {
		return carillon.Change{}, false
	}
	limit := carillon.Limit{Key: pick(w.rand, keys...)}
	return pick(w.rand, due...).Park(limit.Hold()), true
}

// lines are all lines that the steps use.
func (w *world) lines() (names []carillon.HoldName) {
	for _, namespace := range namespaces {
		for _, key := range keys {
			limit := carillon.Limit{Key: key}
			names = append(names, carillon.HoldName{Namespace: namespace, Hold: limit.Hold()})
		}
	}
	return names
}

// finish lets a held run begin, end, or try again.
func (w *world) finish() (carillon.Change, bool) {
	page, err := w.model.FindRuns(context.Background(), carillon.RunQuery{
		States: []carillon.State{carillon.StateClaimed, carillon.StateRunning}, Limit: 1000,
	})
	w.must(err)
	if len(page.Runs) == 0 {
		return carillon.Change{}, false
	}
	run := pick(w.rand, page.Runs...)
	snapshot, ok := w.whole(run.ID.Job)
	if !ok {
		return carillon.Change{}, false
	}
	if run.State == carillon.StateClaimed && w.rand.IntN(4) == 0 {
		run = run.Begin(w.now, w.now)
		run.Wake = w.now + 60_000
		return carillon.Change{Runs: []carillon.Run{run}}, true
	}
	o := carillon.Outcome{Kind: carillon.OutcomeKind(1 + w.rand.IntN(6)), Reason: pick(w.rand, reasons...)}
	if w.rand.IntN(3) == 0 {
		o.Output = &carillon.Output{Checkpoint: fmt.Appendf(nil, "%d", w.rand.IntN(1000))}
	}
	if o.Kind == carillon.OutcomeSuccess && w.rand.IntN(2) == 0 {
		o.Output = &carillon.Output{Result: pick(w.rand, []byte(`{"a":1}`), []byte{})}
	}
	run = run.Finish(&snapshot.Job, o, w.now, w.rand.Float64())
	return carillon.EndChange(&snapshot.Job, run, snapshot.Guards), true
}

// command gives a command on a job, as users do.
func (w *world) command() (c carillon.Change, ok bool) {
	snapshot, ok := w.whole(pick(w.rand, w.jobs...))
	if !ok {
		return c, false
	}
	var err error
	switch w.rand.IntN(10) {
	case 0:
		c, err = snapshot.Cancel(w.rand.IntN(2) == 0, w.now)
	case 1, 2:
		c, err = snapshot.Pause(w.now)
	case 3, 4:
		c, err = snapshot.Resume(w.now)
	case 5:
		c, err = snapshot.Edit(w.definition(), w.now)
	case 6:
		def := snapshot.Job.Definition // the same schedule, another name
		def.Name = pick(w.rand, types...)
		c, err = snapshot.Edit(def, w.now)
	case 7:
		c, _, err = snapshot.RunNow(
			pick(w.rand, nil, json.RawMessage(`{"own":1}`), json.RawMessage(`null`)), w.now,
		)
	case 8:
		c, err = w.retry(snapshot)
	case 9:
		if len(snapshot.Runs) == 0 {
			return c, false
		}
		c, err = snapshot.CancelRun(pick(w.rand, snapshot.Runs...).ID, w.now)
	}
	return c, err == nil
}

func (w *world) retry(snapshot carillon.JobSnapshot) (carillon.Change, error) {
	page, err := w.model.FindRuns(context.Background(), carillon.RunQuery{
		Job: snapshot.Job.ID, Dead: w.rand.IntN(2) == 0,
	})
	w.must(err)
	if len(page.Runs) == 0 {
		return carillon.Change{}, carillon.ErrNotFound
	}
	of := pick(w.rand, page.Runs...)
	withOutput, err := w.model.Runs(context.Background(), []carillon.RunID{of.ID}, true)
	w.must(err)
	if len(withOutput) > 0 {
		of.Output = withOutput[0].Output
	}
	dead, err := w.model.FindRuns(context.Background(), carillon.RunQuery{
		Job: snapshot.Job.ID, Dead: true, From: of.ID.Due, To: of.ID.Due + 1,
	})
	w.must(err)
	c, _, err := snapshot.Retry(of, len(dead.Runs) > 0, w.now)
	return c, err
}

// whole reads a snapshot of a job, with all its unfinished runs.
func (w *world) whole(id carillon.JobID) (snapshot carillon.JobSnapshot, ok bool) {
	ctx := context.Background()
	jobs, err := w.model.Jobs(ctx, []carillon.JobVersion{{Job: id}})
	w.must(err)
	if len(jobs) == 0 {
		return snapshot, false
	}
	snapshot.Job = jobs[0]
	unfinished := []carillon.State{carillon.StateWaiting, carillon.StateClaimed, carillon.StateRunning}
	page, err := w.model.FindRuns(ctx, carillon.RunQuery{Job: id, States: unfinished, Limit: 10_000})
	w.must(err)
	snapshot.Runs = page.Runs
	snapshot.Guards, err = w.model.Guards(ctx, carillon.GuardQuery{
		Namespace: snapshot.Job.Namespace, Keys: []string{id.OverlapKey(), id.PauseKey()},
	})
	w.must(err)
	return snapshot, true
}

// guard writes, removes or compares a guard.
func (w *world) guard() carillon.Change {
	g := carillon.Guard{
		Namespace: pick(w.rand, namespaces...), Key: pick(w.rand, "limit/a", "limit/b", "limit/b/c"),
		Rev: int32(w.rand.IntN(3)),
	}
	switch n := w.rand.IntN(6); {
	case n < 2 || n == 2 && g.Rev == 0:
		return carillon.Change{Compared: []carillon.GuardRev{g.Compare()}}
	case n > 2:
		g.Value = fmt.Appendf(nil, "%d", w.rand.IntN(100))
		if w.rand.IntN(2) == 0 { // Forget can remove about half of these now
			ago := pick[carillon.Time](w.rand, -hourMillis, -1, 0, 1, hourMillis)
			g.Expires = w.now.Add(-carillon.GuardGrace) - ago
		}
	}
	return carillon.Change{Guards: []carillon.Guard{g}}
}

// hostile repeats an old decision, as it was, in part, or together with something else.
func (w *world) hostile() (carillon.Change, bool) {
	if len(w.changes) == 0 {
		return carillon.Change{}, false
	}
	c := pick(w.rand, w.changes...)
	c.Joined = false
	switch w.rand.IntN(4) {
	case 0:
		if other := w.guard(); !sharesGuard(c, other) { // a change names no row twice
			c.Guards = append(slices.Clone(c.Guards), other.Guards...)
			c.Compared = append(slices.Clone(c.Compared), other.Compared...)
		}
	case 1:
		if other, ok := w.finish(); ok && len(c.Runs) > 0 && !sharesRun(c, other) {
			c.Runs = append(slices.Clone(c.Runs), other.Runs...)
		}
	case 2:
		c.Retried = []carillon.RunID{{Job: pick(w.rand, w.jobs...), Due: w.now}}
	}
	return c, true
}

// join joins some of the changes to the one before them. Joined changes name no row twice.
func (w *world) join(batch []carillon.Change) {
	first := 0
	for i := 1; i < len(batch); i++ {
		shares := slices.ContainsFunc(batch[first:i], func(c carillon.Change) bool {
			return sharesJob(c, batch[i]) || sharesRun(c, batch[i]) || sharesGuard(c, batch[i]) ||
				sharesDead(c, batch[i])
		})
		if batch[i].Joined = !shares && w.rand.IntN(4) == 0; !batch[i].Joined {
			first = i
		}
	}
}

func sharesJob(a, b carillon.Change) bool {
	return a.Job != nil && b.Job != nil && a.Job.ID == b.Job.ID
}

// sharesDead says that two changes may write the same dead letter.
func sharesDead(a, b carillon.Change) bool {
	writes := func(c carillon.Change) bool {
		return len(c.Retried) > 0 || slices.ContainsFunc(c.Runs, func(r carillon.Run) bool {
			return r.State == carillon.StateFailed
		})
	}
	return writes(a) && writes(b)
}

func sharesRun(a, b carillon.Change) bool {
	return slices.ContainsFunc(a.Runs, func(x carillon.Run) bool {
		return slices.ContainsFunc(b.Runs, func(y carillon.Run) bool { return x.ID == y.ID })
	})
}

func sharesGuard(a, b carillon.Change) bool {
	names := map[carillon.GuardRev]bool{}
	for _, c := range []carillon.Change{a, b} {
		compared := slices.Clone(c.Compared)
		for i := range c.Guards {
			compared = append(compared, c.Guards[i].Compare())
		}
		for _, g := range compared {
			if g.Rev = 0; names[g] {
				return true
			}
			names[g] = true
		}
	}
	return false
}
