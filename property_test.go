package carillon_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/adapter/mem"
	"github.com/carillon-run/carillon/internal/ledger"
	"github.com/carillon-run/carillon/porttest"
)

// TestRandomLivesOfAJob applies the rules in random order to one job, also decisions that were made on old
// reads. After every step it checks what must always hold; see property_check_test.go for the list.
func TestRandomLivesOfAJob(t *testing.T) {
	const lives, steps = 250, 120
	seed := porttest.Seed(t)
	for i := range int64(lives) {
		l := newLife(t, seed+i)
		for n := 0; n < steps && !t.Failed(); n++ {
			l.step()
			l.check()
		}
		if !t.Failed() {
			l.settle()
		}
		if t.Failed() {
			t.Fatalf(
				"to see this life only: -seed=%d\n%s", seed+i,
				strings.Join(l.diary[max(0, len(l.diary)-40):], "\n"),
			)
		}
	}
}

// life is one job in its own store, and what the test knows about it from the committed changes.
type life struct {
	t     *testing.T
	rand  *rand.Rand
	store *mem.Store
	door  *ledger.Ledger // for its reads
	now   carillon.Time
	job   carillon.JobID
	diary []string

	mine    map[carillon.RunID]held // the runs that workers hold, as the workers know them
	stale   []decision              // decided and not yet committed
	eras    []*era                  // one for each schedule that the job has had
	born    map[carillon.RunID]int  // the era of unfinished runs by the clock
	begun   map[carillon.RunID]bool // ever claimed
	notYet  map[carillon.RunID]carillon.Time
	fences  map[carillon.RunID]int64
	guarded int64 // the highest fence of a run that the guard ruled when it was claimed
	history []carillon.Run
}

type held struct {
	run   carillon.Run
	guard carillon.Guards
}

type decision struct {
	at     carillon.Time
	what   string
	change carillon.Change
}

// era is a stretch of time with one schedule, and the records of its due times.
type era struct {
	schedule carillon.Schedule
	from     carillon.Time // no due time up to here
	until    carillon.Time // it ended then; 0: it goes on
	planned  int           // runs that count for max_runs
	records  []carillon.Run
}

func newLife(t *testing.T, seed int64) *life {
	store := mem.NewStore()
	l := &life{
		t: t, rand: rand.New(rand.NewPCG(uint64(seed), 7)), store: store,
		door: ledger.New(ledger.Config{Store: store}),
		now:  epoch, mine: map[carillon.RunID]held{}, born: map[carillon.RunID]int{},
		begun:  map[carillon.RunID]bool{},
		notYet: map[carillon.RunID]carillon.Time{}, fences: map[carillon.RunID]int64{},
	}
	l.now += carillon.Time(l.rand.Int64N(100_000))
	def := carillon.Definition{}
	def.Type, def.Target.Handler = "test", &carillon.Handler{}
	l.shuffle(&def)
	l.reschedule(&def, l.rand.IntN(6) == 0)
	if err := def.Admit(l.now); err != nil {
		t.Fatalf("%v of %+v", err, def.Schedule)
	}
	job := carillon.Job{Namespace: carillon.DefaultNamespace, ID: 4711, Definition: def}
	l.job = job.ID
	l.commit("submit", carillon.Submit(&job, l.now))
	return l
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

func (l *life) shuffle(def *carillon.Definition) {
	r := l.rand
	def.Overlap = pick(
		r, carillon.OverlapSkip, carillon.OverlapQueue, carillon.OverlapQueueAll, carillon.OverlapReplace,
		carillon.OverlapAllow,
	)
	def.Misfire.Policy = pick(r, carillon.MisfireSkip, carillon.MisfireOnce, carillon.MisfireAll)
	def.Misfire.Max = pick(r, 1, 3, 100)
	def.Misfire.Window = carillon.Duration(pick(r, time.Millisecond, time.Minute, time.Hour))
	def.Retry.MaxAttempts = pick[int32](r, 1, 2, 4)
	def.Retry.Delay = carillon.Duration(pick(r, carillon.Zero, time.Second, time.Minute))
	def.Retry.MaxCrashes = pick[int32](r, 1, 3)
	def.Priority = pick(r, carillon.Zero, 1, 5, 9)
}

func (l *life) reschedule(def *carillon.Definition, oneOff bool) {
	r := l.rand
	s := carillon.Schedule{}
	switch {
	case oneOff:
		s.After = carillon.Duration(pick(r, 0, time.Second, time.Minute))
	case r.IntN(2) == 0:
		s.Cron = pick(r, "*/5 * * * * *", "*/2 * * * *", "7,8,50 * * * * *", "@every 3s")
	default:
		s.Every = carillon.Duration(pick(r, time.Second, 7*time.Second, 90*time.Second))
	}
	if !oneOff {
		s.MaxRuns = pick(r, 0, 0, 1, 2, 5)
		if r.IntN(5) == 0 {
			s.EndsAt = l.now.Add(time.Duration(130+r.IntN(300)) * time.Second)
		}
	}
	def.Schedule = s
}

// step does one thing.
func (l *life) step() {
	switch n := l.rand.IntN(100); {
	case n < 24:
		l.pass()
	case n < 62:
		l.look()
	case n < 80:
		l.finish()
	case n < 85:
		l.commitStale()
	default:
		l.command()
	}
}

// pass lets time go by: a moment, until something is due, or so long that times are missed.
func (l *life) pass() {
	switch l.rand.IntN(4) {
	case 0:
		l.now += carillon.Time(l.rand.Int64N(1500))
	case 1, 2:
		if due := l.due(carillon.Never - 1); len(due) > 0 {
			l.now = max(l.now, due[0].Wake)
		}
	case 3:
		l.now += carillon.Time(l.rand.Int64N(200_000))
	}
}

// due are the waiting runs, not on hold, with a wake up to until.
func (l *life) due(until carillon.Time) []carillon.Run {
	runs, err := l.store.Wakes(context.Background(), carillon.WakeQuery{Until: until, Limit: 10_000})
	if err != nil {
		l.t.Fatal(err)
	}
	return slices.DeleteFunc(runs, func(r carillon.Run) bool {
		return r.State != carillon.StateWaiting || r.Has(carillon.FlagOnHold)
	})
}

// look decides about a due run, as the scheduler or a worker does.
func (l *life) look() {
	due := l.due(l.now)
	if len(due) == 0 {
		return
	}
	l.decide(pick(l.rand, due...), pick(l.rand, "", "w1", "w2"))
}

func (l *life) decide(run carillon.Run, worker string) bool {
	candidates, err := l.door.Candidates(context.Background(), []carillon.Run{run}, worker)
	if err != nil || len(candidates) != 1 {
		l.t.Fatalf("%d dues, %v", len(candidates), err)
	}
	verdict, change := candidates[0].Decide(l.now)
	if verdict == carillon.VerdictReady {
		return false
	}
	return l.commitSoon(fmt.Sprintf("%s looks at %s", worker, l.name(run.ID)), change)
}

// commitSoon commits now, or later when the decision is old.
func (l *life) commitSoon(what string, c carillon.Change) bool {
	if l.rand.IntN(12) == 0 {
		l.stale = append(l.stale, decision{l.now, what + " (late)", c})
		return false
	}
	return l.commit(what, c)
}

func (l *life) commitStale() {
	if len(l.stale) == 0 {
		return
	}
	i := l.rand.IntN(len(l.stale))
	d := l.stale[i]
	l.stale = slices.Delete(l.stale, i, i+1)
	present := l.now
	l.now = d.at // a change has the time of its decision
	l.commit(d.what, d.change)
	l.now = present
}

// finish ends an attempt, at first with the state that its worker knows.
func (l *life) finish() {
	var ids []carillon.RunID
	for id := range l.mine {
		ids = append(ids, id)
	}
	if len(ids) == 0 {
		return
	}
	slices.SortFunc(ids, func(a, b carillon.RunID) int { return int(a.Due - b.Due) })
	h := l.mine[pick(l.rand, ids...)]
	if h.run.State == carillon.StateClaimed && l.rand.IntN(3) == 0 {
		l.commit("begin "+l.name(h.run.ID), carillon.Change{Runs: []carillon.Run{h.run.Begin(l.now, l.now)}})
		return
	}
	kind := pick(
		l.rand, carillon.OutcomeSuccess, carillon.OutcomeSuccess, carillon.OutcomeRetriable,
		carillon.OutcomeRetriable, carillon.OutcomeFatal, carillon.OutcomeLost, carillon.OutcomeCrashed,
	)
	if h.run.Has(carillon.FlagStop) {
		kind = pick(l.rand, carillon.OutcomeStopped, carillon.OutcomeSuccess, carillon.OutcomeCrashed)
	}
	l.end(h, carillon.Outcome{Kind: kind, Reason: "for a reason", RetryAfter: pick(l.rand, 0, 2*time.Second)})
}

func (l *life) end(h held, o carillon.Outcome) {
	what := fmt.Sprintf("outcome %d of %s", o.Kind, l.name(h.run.ID))
	if !h.run.Has(carillon.FlagGuarded) || h.guard != nil {
		if l.commit(
			what,
			carillon.EndChange(
				l.definition(h.run.Version),
				h.run.Finish(l.definition(h.run.Version), o, l.now, l.rand.Float64()), h.guard,
			),
		) {
			return
		}
	}
	runs, err := l.store.Runs(context.Background(), []carillon.RunID{h.run.ID}, false)
	if err != nil || len(runs) != 1 || !runs[0].State.Held() || runs[0].Attempt != h.run.Attempt {
		l.t.Errorf("%s: the attempt is no longer there: %v, %v", what, runs, err)
		return
	}
	candidates, err := l.door.Candidates(context.Background(), runs, "")
	if err != nil || len(candidates) != 1 {
		l.t.Fatalf("%d dues, %v", len(candidates), err)
	}
	run := runs[0].Finish(candidates[0].Job, o, l.now, l.rand.Float64())
	if !l.commit(what+" again", carillon.EndChange(candidates[0].Job, run, candidates[0].Guards)) {
		l.t.Errorf("%s: lost on fresh news", what)
	}
}

func (l *life) definition(version int32) *carillon.Job {
	jobs, err := l.store.Jobs(context.Background(), []carillon.JobVersion{{Job: l.job, Version: version}})
	if err != nil || len(jobs) != 1 {
		l.t.Fatalf("version %d: %v, %v", version, jobs, err)
	}
	return &jobs[0]
}

// command gives a random command on the job, as people do.
func (l *life) command() {
	w := l.whole()
	var c carillon.Change
	var err error
	var what string
	switch n := l.rand.IntN(40); {
	case n < 8:
		what, c, err = l.edit(w)
	case n < 14:
		what = "pause"
		c, err = w.Pause(l.now)
	case n < 24:
		what = "resume"
		c, err = w.Resume(l.now)
	case n < 30:
		what = "run now"
		c, _, err = w.RunNow(nil, l.now)
	case n < 34 && len(l.history) > 0:
		of := pick(l.rand, l.history...)
		what = "retry " + l.name(of.ID)
		c, _, err = w.Retry(of, false, l.now)
	case n < 38 && len(w.Runs) > 0:
		run := pick(l.rand, w.Runs...)
		what = "cancel " + l.name(run.ID)
		c, err = w.CancelRun(run.ID, l.now)
	case n == 39 && l.rand.IntN(4) == 0:
		what = "cancel"
		c, err = w.Cancel(l.rand.IntN(2) == 0, l.now)
	default:
		return
	}
	if err == nil {
		l.commitSoon(what, c)
	}
}

func (l *life) edit(w carillon.JobSnapshot) (string, carillon.Change, error) {
	def := w.Job.Definition
	l.shuffle(&def)
	if l.rand.IntN(2) == 0 {
		l.reschedule(&def, !def.Schedule.Recurring())
	}
	if err := def.Admit(l.now); err != nil {
		return "", carillon.Change{}, err // ends_at has passed
	}
	c, err := w.Edit(def, l.now)
	return fmt.Sprintf("edit to %s %+v", def.Overlap, def.Schedule), c, err
}

func (l *life) whole() carillon.JobSnapshot {
	w, err := l.door.Snapshot(context.Background(), carillon.DefaultNamespace, l.job)
	if err != nil {
		l.t.Fatal(err)
	}
	return w
}

func (l *life) name(id carillon.RunID) string { return fmt.Sprintf("+%d", id.Due-epoch) }

// settle lets everything come to its end: no due run may be left, and no run in line.
func (l *life) settle() {
	l.now += 1000 // a run that was asked for can have a due time that is a moment ahead
	if w := l.whole(); w.Job.State == carillon.JobPaused {
		c, _ := w.Resume(l.now)
		l.commit("resume at last", c)
	}
	for range 10_000 {
		for _, h := range l.mine {
			l.end(h, carillon.Outcome{Kind: carillon.OutcomeSuccess})
		}
		due := l.due(carillon.Never - 1)
		due = slices.DeleteFunc(due, func(r carillon.Run) bool { return r.ID.Due > l.now })
		if len(due) == 0 {
			break
		}
		next := due[0]
		// The next in line is decided as soon as the run before it has ended.
		if w := l.whole(); w.Guards != nil {
			heir := w.Guards.NextInLine(l.job)
			if i := slices.IndexFunc(due, func(r carillon.Run) bool { return r.ID == heir }); i >= 0 {
				next = due[i]
				next.Wake = l.now
			}
		}
		l.now = max(l.now, next.Wake)
		l.decide(next, "w1")
		l.check()
		if l.t.Failed() {
			return
		}
	}
	w := l.whole()
	if (w.Guards.Holder(l.job) != carillon.RunID{} || w.Guards.NextInLine(l.job) != carillon.RunID{}) {
		l.t.Errorf("all is done, and the guard still says %s", w.Guards[0].Value)
	}
	for _, run := range w.Runs {
		if run.ID.Due <= l.now {
			l.t.Errorf("all is done but %s: %+v", l.name(run.ID), run)
		}
	}
}
