package porttest

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/idgen"
	"github.com/carillon-run/carillon/internal/ledger"
)

// Unique keys are decided by the ledger, but they need stores that let one of many concurrent submits win.
var storeUnique = []storeCase{
	{"a guard begins with the revision that it is given", func(t *storeTest) {
		g := carillon.Guard{Namespace: "unique", Key: "k", Value: []byte("x"), First: 4711}
		t.win(carillon.Change{Guards: []carillon.Guard{g}})
		t.equal("Rev", t.guard("unique", "k").Rev, int32(4711))
		t.lose(carillon.Change{Guards: []carillon.Guard{g}})
		g.Rev = 1
		t.lose(carillon.Change{Guards: []carillon.Guard{g}})
		g.Rev = 4711
		t.win(carillon.Change{Guards: []carillon.Guard{g}})
		t.equal("Rev", t.guard("unique", "k").Rev, int32(4712))
		g.Rev++
		other := carillon.Guard{Namespace: "unique", Key: "other", Value: []byte("y"), First: 7}
		later := other
		later.Rev = 7
		t.win(
			carillon.Change{Guards: []carillon.Guard{other}, Compared: []carillon.GuardRev{g.Compare()}},
			carillon.Change{Guards: []carillon.Guard{later}},
		)
		t.equal("Rev", t.guard("unique", "other").Rev, int32(8))
	}},
	{"of many submits with one unique key one makes a job", storeOneKey},
	{"a unique key has one holder, whatever happens", func(t *storeTest) { newUniqueWorld(t, 0).play(150) }},
	{"a unique key has one holder, whatever fails", func(t *storeTest) { newUniqueWorld(t, 0.06).play(150) }},
}

func storeOneKey(t *storeTest) {
	const callers = 64
	w := newUniqueWorld(t, 0)
	stop := w.start()
	defer stop()
	for _, until := range []carillon.UniqueUntil{"", carillon.UntilEnded} {
		ids, made := make([]carillon.JobID, callers), make([]bool, callers)
		var all sync.WaitGroup
		for i := range ids {
			def := w.define(carillon.Unique{Key: "of/" + string(until) + "x", Until: until})
			if until == "" {
				def.Unique.For, def.Unique.Until = carillon.Duration(time.Hour), ""
			}
			all.Go(func() {
				jobs, err := w.nodes[i%2].Submit(context.Background(), "default", []carillon.Definition{def})
				if err != nil {
					t.Error(err)
					return
				}
				ids[i], made[i] = jobs[0].ID, !jobs[0].Existing
			})
		}
		all.Wait()
		n := 0
		for i := range ids {
			if made[i] {
				n++
			}
			if ids[i] != ids[0] {
				t.Fatalf("one caller got %s, another %s", ids[i], ids[0])
			}
		}
		t.equal("jobs that were made", n, 1)
	}
	t.equal("jobs", len(t.findJobs(carillon.JobQuery{Namespace: "default"})), 2)
}

// uniqueWorld does random things to jobs with few unique keys, on two nodes, and knows which job holds each.
type uniqueWorld struct {
	*storeTest
	rand   *rand.Rand
	clock  carillon.Clock
	ahead  time.Duration
	faults float64 // the share of calls of the store that fail
	nodes  [2]*ledger.Ledger

	jobs   []carillon.JobID
	holds  map[string]uniqueHold
	beside map[carillon.JobID]bool // they go on, but another job has replaced them
}

type uniqueHold struct {
	job   carillon.JobID
	until carillon.Time // 0: the job has ended
}

func newUniqueWorld(t *storeTest, faults float64) *uniqueWorld {
	return &uniqueWorld{
		storeTest: t, rand: random(t.T), faults: faults,
		holds: map[string]uniqueHold{}, beside: map[carillon.JobID]bool{},
	}
}

// start runs the ledgers of two nodes, until the returned function is called.
func (w *uniqueWorld) start() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for i := range w.nodes {
		store := w.store
		if w.faults > 0 {
			random := rand.New(rand.NewPCG(w.rand.Uint64(), 1))
			store = Lossy(w.store, random, w.faults)
		}
		w.nodes[i] = ledger.New(ledger.Config{
			Store: store, IDs: idgen.New(i+1, carillon.Never), Clock: &w.clock,
		})
		running.Go(func() { _ = w.nodes[i].Run(ctx) })
	}
	return func() {
		cancel()
		running.Wait()
	}
}

func (w *uniqueWorld) play(steps int) {
	defer w.start()()
	begun := time.Now()
	for step := range steps {
		w.step()
		w.check()
		if w.Failed() {
			w.Fatalf("in step %d", step)
		}
		if time.Since(begun) > modelTime && step > 30 {
			return
		}
	}
}

func (w *uniqueWorld) step() {
	node := w.nodes[w.rand.IntN(2)]
	switch n := w.rand.IntN(16); {
	case n < 6 || len(w.jobs) == 0:
		w.submit(node)
	case n < 8:
		w.ahead += pick(w.rand, 37*time.Second, 71*time.Second, 40*time.Minute)
		w.clock.SetAhead(w.ahead)
		if w.rand.IntN(3) == 0 {
			_, err := w.store.Forget(context.Background(), carillon.Retention{}, w.clock.Now(), 1000)
			w.must(err)
		}
	case n < 11:
		w.claim(node)
	case n < 13:
		w.end(node)
	default:
		w.command(node)
	}
}

func (w *uniqueWorld) define(u carillon.Unique) carillon.Definition {
	d := carillon.Definition{Type: "test", Target: carillon.Target{Handler: &carillon.Handler{}}, Unique: &u}
	d.Schedule = pick(w.rand,
		carillon.Schedule{}, carillon.Schedule{After: carillon.Duration(30 * time.Second)},
		carillon.Schedule{After: carillon.Duration(200 * time.Second)},
		carillon.Schedule{After: carillon.Duration(10 * time.Second)},
		carillon.Schedule{Every: carillon.Duration(time.Minute), MaxRuns: 1 + w.rand.IntN(2)},
	)
	d.Overlap = pick(w.rand, carillon.OverlapSkip, carillon.OverlapAllow)
	d.Retry.MaxAttempts = 2
	w.must(d.Admit(w.clock.Now()))
	return d
}

// submit submits a job, and compares the answer with what the rules say.
func (w *uniqueWorld) submit(node *ledger.Ledger) {
	u := carillon.Unique{
		Key:        pick(w.rand, "a", "b"),
		OnConflict: pick(w.rand, carillon.ConflictReturn, carillon.ConflictReplace, carillon.ConflictRefuse),
	}
	if w.rand.IntN(3) == 0 {
		u.For = pick(w.rand, carillon.Duration(100*time.Second), carillon.Duration(time.Hour))
	}
	def := w.define(u)
	held, snapshot := w.held(u.Key)
	was := w.holds[u.Key]
	jobs, err := node.Submit(context.Background(), "default", []carillon.Definition{def})
	if after, _ := w.held(u.Key); err == nil && held && !after && was.until != 0 {
		held = jobs[0].Existing // its time ended just now
	}
	replaced := held && u.OnConflict == carillon.ConflictReplace && fresh(snapshot)
	var refusal *carillon.KeyHeldError
	switch {
	case errors.Is(err, ErrInjected):
		w.lookAgain(u, held, was, replaced)
	case errors.As(err, &refusal):
		if !held || u.OnConflict != carillon.ConflictRefuse || refusal.Job != was.job {
			w.Errorf("refused: %v; held by %+v: %t", err, was, held)
		}
	case errors.Is(err, carillon.ErrInvalid):
		if !replaced || snapshot.Job.Schedule.Recurring() == def.Schedule.Recurring() {
			w.Errorf("submit: %v", err)
		}
	case err != nil:
		w.Errorf("submit: %v", err)
	default:
		w.answered(&jobs[0], u, held, was, replaced)
	}
}

func (w *uniqueWorld) answered(
	job *carillon.Job, u carillon.Unique, held bool, was uniqueHold, replaced bool,
) {
	existing := held && (replaced || u.OnConflict == carillon.ConflictReturn)
	if job.Existing != existing || existing && job.ID != was.job {
		w.Errorf("%s of %s: got %s, existing %t; want %t; held by %+v: %t",
			u.OnConflict, u.Key, job.ID, job.Existing, existing, was, held)
	}
	if existing && !replaced {
		return
	}
	w.take(u, job.ID, held, was)
}

// take notes that a job holds a key.
func (w *uniqueWorld) take(u carillon.Unique, job carillon.JobID, held bool, was uniqueHold) {
	if held && was.job != job {
		w.beside[was.job] = true
	}
	if !slices.Contains(w.jobs, job) {
		w.jobs = append(w.jobs, job)
	}
	w.holds[u.Key] = uniqueHold{job: job, until: w.guard("default", "unique/"+u.Key).Expires}
}

// lookAgain finds out what a submit did that failed.
func (w *uniqueWorld) lookAgain(u carillon.Unique, held bool, was uniqueHold, replaced bool) {
	guard := w.guard("default", "unique/"+u.Key)
	if guard == nil {
		return
	}
	job, taken := guard.KeyHolder(w.clock.Now())
	if !taken || job == was.job && !replaced {
		return
	}
	if held && job != was.job && (u.OnConflict != carillon.ConflictReplace || replaced) {
		w.Errorf("%s of %s failed, and %s holds the key in place of %+v", u.OnConflict, u.Key, job, was)
	}
	w.take(u, job, held, was)
}

// held says whether a job holds a key, by the rules alone, and returns that job.
func (w *uniqueWorld) held(key string) (bool, *carillon.JobSnapshot) {
	hold, any := w.holds[key]
	if !any {
		return false, nil
	}
	snapshot := w.snapshot(hold.job)
	if hold.until != 0 {
		return w.clock.Now() < hold.until && snapshot.Job.State != carillon.JobCanceled, snapshot
	}
	return goesOn(snapshot), snapshot
}

func goesOn(w *carillon.JobSnapshot) bool {
	return slices.ContainsFunc(w.Runs, func(r carillon.Run) bool { return r.ByClock() })
}

// fresh says that a submit replaces the job in place.
func fresh(w *carillon.JobSnapshot) bool {
	begun := func(r carillon.Run) bool { return r.ByClock() && r.Attempt > 0 }
	waits := func(r carillon.Run) bool { return r.ByClock() && r.Attempt == 0 }
	return w.Job.State != carillon.JobCanceled && slices.ContainsFunc(w.Runs, waits) &&
		(w.Job.Schedule.Recurring() || !slices.ContainsFunc(w.Runs, begun))
}

func (w *uniqueWorld) snapshot(id carillon.JobID) *carillon.JobSnapshot {
	s := &carillon.JobSnapshot{}
	if job := w.job(id); job != nil {
		s.Job = *job
	}
	s.Runs = w.unfinished(id)
	return s
}

func (w *uniqueWorld) unfinished(id carillon.JobID) []carillon.Run {
	return w.findRuns(carillon.RunQuery{
		Namespace: "default", Job: id, Limit: 1000,
		States: []carillon.State{carillon.StateWaiting, carillon.StateClaimed, carillon.StateRunning},
	})
}

// claim decides about a due run, as a dispatcher does.
func (w *uniqueWorld) claim(node *ledger.Ledger) {
	due := w.wakes(carillon.WakeQuery{Until: w.clock.Now(), Limit: 100})
	due = slices.DeleteFunc(due, func(r carillon.Run) bool { return r.State != carillon.StateWaiting })
	if len(due) > 0 {
		w.decide(node, pick(w.rand, due...), "worker_1", func(c carillon.Candidate) carillon.Change {
			_, change := c.Decide(w.clock.Now())
			return change
		})
	}
}

// end ends the attempt of a run that a worker holds.
func (w *uniqueWorld) end(node *ledger.Ledger) {
	held := w.findRuns(carillon.RunQuery{
		Namespace: "default", Limit: 100,
		States: []carillon.State{carillon.StateClaimed, carillon.StateRunning},
	})
	if len(held) == 0 {
		return
	}
	o := carillon.Outcome{
		Kind: pick(w.rand, carillon.OutcomeSuccess, carillon.OutcomeRetriable, carillon.OutcomeLost),
	}
	w.decide(node, pick(w.rand, held...), "", func(c carillon.Candidate) carillon.Change {
		return carillon.EndChange(c.Job, c.Run.Finish(c.Job, o, w.clock.Now(), 0), c.Guards)
	})
}

func (w *uniqueWorld) decide(
	node *ledger.Ledger, run carillon.Run, worker string, rule func(carillon.Candidate) carillon.Change,
) {
	ctx := context.Background()
	candidates, err := node.Candidates(ctx, []carillon.Run{run}, worker)
	if err == nil && len(candidates) > 0 {
		_, err = node.Commit(ctx, []carillon.Change{rule(candidates[0])})
	}
	w.tolerate(err)
}

// command gives a command on a job, as users do.
func (w *uniqueWorld) command(node *ledger.Ledger) {
	ctx, id := context.Background(), pick(w.rand, w.jobs...)
	runs := w.unfinished(id)
	var err error
	switch w.rand.IntN(4) {
	case 0:
		_, err = node.CancelJob(ctx, "default", id, w.rand.IntN(2) == 0)
	case 1:
		_, err = node.RunNow(ctx, "default", id, nil)
	case 2:
		if len(runs) > 0 {
			_, err = node.CancelRun(ctx, "default", pick(w.rand, runs...).ID)
		}
	case 3:
		if goesOn(&carillon.JobSnapshot{Runs: runs}) { // else it would begin again, without its key
			_, err = node.EditJob(ctx, "default", id, func(d *carillon.Definition) error {
				if was := *d; !was.Schedule.Recurring() {
					d.Schedule = carillon.Schedule{After: carillon.Duration(20 * time.Second)}
					return d.AdmitEdit(&was, w.clock.Now())
				}
				return nil
			})
		}
	}
	w.tolerate(err)
}

// tolerate accepts what the store or the state of a job does not allow.
func (w *uniqueWorld) tolerate(err error) {
	w.Helper()
	if err != nil && !errors.Is(err, ErrInjected) && !errors.Is(err, carillon.ErrConflict) &&
		!errors.Is(err, carillon.ErrNotFound) {
		w.Error(err)
	}
}

// check looks at all jobs: of those that hold a key until they have ended, one has not.
func (w *uniqueWorld) check() {
	holders := map[string]carillon.JobID{}
	for _, id := range w.jobs {
		s := w.snapshot(id)
		if w.beside[id] || s.Job.Unique == nil || s.Job.Unique.Until != carillon.UntilEnded || !goesOn(s) {
			continue
		}
		if other := holders[s.Job.Unique.Key]; other != 0 {
			w.Errorf("%s and %s both hold the key %s", other, id, s.Job.Unique.Key)
		}
		holders[s.Job.Unique.Key] = id
		if guard := w.guard("default", s.Job.UniqueKey()); guard == nil {
			w.Errorf("%s holds the key %s, and there is no guard", id, s.Job.Unique.Key)
		} else if holder, held := guard.KeyHolder(w.clock.Now()); !held || holder != id {
			w.Errorf("%s goes on, but its guard is %s, expires %s", id, guard.Value, guard.Expires)
		}
	}
}
