package porttest

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/idgen"
	"github.com/carillon-run/carillon/internal/ledger"
)

// Limits lets two nodes do random things to runs with limits, while calls to the store fail before or after
// they did their work. After every step the counts must be what a small reference counts.
func Limits(t *testing.T, open func(t *testing.T) carillon.Store) {
	const worlds, steps = 12, 120
	begun, seed := time.Now(), Seed(t)
	for i := range worlds {
		w := newLimitsWorld(t, open(t), seed+int64(i))
		for range steps {
			before := w.lined()
			w.step()
			w.check()
			w.checkFresh(before)
		}
		w.drain()
		w.stop()
		if t.Failed() || time.Since(begun) > modelTime {
			return
		}
	}
}

// The keys of the jobs' limits. No start of the rate becomes free again while a test lasts.
var limitKeys = []carillon.Limit{
	{Key: "one", Concurrency: 1, Weight: 1},
	{Key: "three", Concurrency: 3, Weight: 1},
	{Key: "five", Concurrency: 5, Weight: 1},
	{
		Key: "burst", Concurrency: 4, Weight: 1, Rate: carillon.Rate{Starts: 1, Per: time.Hour},
		Burst: limitBurst,
	},
}

const limitBurst = 7

// limitsWorld is two nodes on one store.
type limitsWorld struct {
	t     *testing.T
	rand  *rand.Rand
	truth carillon.Store // never fails
	nodes [2]limitsNode
	heal  bool
	stop  func()

	jobs    []carillon.JobID
	workers int
	// took is what the claims of each worker take by the definition that they were decided on, by the key.
	// Every claim is for a worker of its own.
	took    map[string]map[string]int
	starts  map[string]bool // workers whose claim took a start of the rate
	fresh   map[string]bool // workers whose claim is of a run that waited in no line
	pending []limitsCommit  // decided, and committed by a later step
	losers  []carillon.Run  // their claims lost
}

// limitsNode is a ledger on a store of which some calls fail.
type limitsNode struct {
	*ledger.Ledger
	store carillon.Store
}

// limitsCommit is changes that a node has decided.
type limitsCommit struct {
	node    int
	changes []carillon.Change
}

func newLimitsWorld(t *testing.T, store carillon.Store, seed int64) *limitsWorld {
	w := &limitsWorld{
		t: t, rand: rand.New(rand.NewPCG(uint64(seed), 1)), truth: store,
		took: map[string]map[string]int{}, starts: map[string]bool{}, fresh: map[string]bool{},
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for i := range w.nodes {
		faults := rand.New(rand.NewPCG(uint64(seed), uint64(2+i)))
		lossy := Lossy(store, faults, 0.15)
		fails := lossy.plan
		lossy.plan = func(method string, call int) fault { // not while all is well again
			if how := fails(method, call); !w.heal {
				return how
			}
			return fine
		}
		w.nodes[i] = limitsNode{
			ledger.New(ledger.Config{Store: lossy, IDs: idgen.New(i+1, carillon.Never)}), lossy,
		}
		running.Go(func() { _ = w.nodes[i].Run(ctx) })
	}
	w.stop = func() {
		cancel()
		running.Wait()
	}
	t.Cleanup(w.stop)
	return w
}

// step lets one node decide something, or both at the same time, and commits it at once or later.
func (w *limitsWorld) step() {
	switch node := w.rand.IntN(2); w.rand.IntN(12) {
	case 0, 1:
		w.submit(node)
	case 2:
		w.command(node)
	case 3, 4: // what was decided some steps ago
		if len(w.pending) > 0 {
			i := w.rand.IntN(len(w.pending))
			c := w.pending[i]
			w.pending = slices.Delete(w.pending, i, i+1)
			w.commit(c)
		}
	case 5:
		w.pending = append(w.pending, w.decide(node))
	case 6: // both of them often decide about the same runs
		w.commit(w.decide(0), w.decide(1))
	default:
		w.commit(w.decide(node))
	}
}

func (w *limitsWorld) decide(node int) limitsCommit {
	var changes []carillon.Change
	switch w.rand.IntN(10) {
	case 0, 1:
		changes = w.look(node, limitKeys[w.rand.IntN(len(limitKeys))])
	case 2, 3:
		changes = w.decideAgain(node)
	case 4, 5, 6:
		changes = w.end(node)
	default:
		changes = w.claim(node)
	}
	return limitsCommit{node, changes}
}

// limits are random limits of a job.
func (w *limitsWorld) limits() (limits []carillon.Limit) {
	for _, i := range w.rand.Perm(len(limitKeys))[:1+w.rand.IntN(2)] {
		l := limitKeys[i]
		if l.Concurrency > 1 && w.rand.IntN(3) == 0 {
			l.Weight = 2
		}
		limits = append(limits, l)
	}
	return limits
}

func (w *limitsWorld) submit(node int) {
	defs := make([]carillon.Definition, 1+w.rand.IntN(4))
	for i := range defs {
		defs[i].Type, defs[i].Target.Handler, defs[i].Limits = "t", &carillon.Handler{}, w.limits()
		defs[i].Retry.Delay, defs[i].Retry.MaxCrashes = carillon.Zero, 1000
		w.must(defs[i].Admit(carillon.Now()))
	}
	jobs, err := w.nodes[node].Submit(context.Background(), carillon.DefaultNamespace, defs)
	w.may(err)
	for _, job := range jobs {
		w.jobs = append(w.jobs, job.ID)
	}
}

// command pauses, resumes, edits or cancels a job, as users do.
func (w *limitsWorld) command(node int) {
	if len(w.jobs) == 0 {
		return
	}
	ctx, l, id := context.Background(), w.nodes[node], pick(w.rand, w.jobs...)
	var err error
	switch w.rand.IntN(8) {
	case 0, 1:
		_, err = l.PauseJob(ctx, carillon.DefaultNamespace, id)
	case 2, 3, 4:
		_, err = l.ResumeJob(ctx, carillon.DefaultNamespace, id)
	case 5:
		_, err = l.CancelJob(ctx, carillon.DefaultNamespace, id, w.rand.IntN(2) == 0)
	default:
		limits := w.limits()
		_, err = l.EditJob(ctx, carillon.DefaultNamespace, id, func(d *carillon.Definition) error {
			d.Limits = limits
			return nil
		})
	}
	w.may(err)
}

// claim decides about some waiting runs for a worker, whether it is their turn or not.
func (w *limitsWorld) claim(node int) []carillon.Change {
	return w.claimRuns(node, w.some(w.runs(carillon.StateWaiting)))
}

func (w *limitsWorld) claimRuns(node int, runs []carillon.Run) (changes []carillon.Change) {
	now := carillon.Now()
	for _, run := range runs {
		w.workers++
		worker := "w" + strconv.Itoa(w.workers)
		candidates, err := w.nodes[node].Candidates(context.Background(), []carillon.Run{run}, worker)
		w.may(err)
		for i := range candidates {
			d := &candidates[i]
			verdict, c := d.Decide(now)
			if verdict == carillon.VerdictClaim {
				w.took[worker], w.fresh[worker] = map[string]int{}, d.Run.Hold == ""
				for _, l := range d.Limits {
					w.took[worker][l.Key] = l.Weight
				}
			}
			if verdict != carillon.VerdictHold {
				changes = append(changes, c)
			}
		}
	}
	return changes
}

// decideAgain decides about runs whose claims lost: those without room wait in a line.
func (w *limitsWorld) decideAgain(node int) (changes []carillon.Change) {
	runs := w.losers
	w.losers = nil
	if w.rand.IntN(2) == 0 { // they may have changed meanwhile
		var err error
		runs, err = w.nodes[node].store.Runs(context.Background(), idsOf(runs), false)
		w.may(err)
		runs = slices.DeleteFunc(runs, func(r carillon.Run) bool { return r.State != carillon.StateWaiting })
	}
	candidates, err := w.nodes[node].Candidates(context.Background(), runs, "")
	w.may(err)
	for i := range candidates {
		if verdict, c := candidates[i].Decide(carillon.Now()); verdict == carillon.VerdictWait {
			changes = append(changes, c)
		}
	}
	return changes
}

// end ends attempts in all ways in which they end: reports, hand-backs, and runs that are taken back.
func (w *limitsWorld) end(node int) (changes []carillon.Change) {
	for _, run := range w.some(w.runs(carillon.StateClaimed, carillon.StateRunning)) {
		if run.State == carillon.StateClaimed && w.rand.IntN(4) == 0 {
			changes = append(changes, carillon.Change{Runs: []carillon.Run{
				run.Begin(carillon.Now(), carillon.Now()),
			}})
			continue
		}
		changes = append(changes, w.endOf(node, run, carillon.Outcome{
			Kind: carillon.OutcomeKind(1 + w.rand.IntN(6)), Reason: "so",
		})...)
	}
	return changes
}

func (w *limitsWorld) endOf(node int, run carillon.Run, o carillon.Outcome) (changes []carillon.Change) {
	candidates, err := w.nodes[node].Candidates(context.Background(), []carillon.Run{run}, "")
	w.may(err)
	for i := range candidates {
		d := &candidates[i]
		ended := run.Finish(d.Job, o, carillon.Now(), 0)
		changes = append(changes, carillon.EndChange(d.Job, ended, d.Guards))
	}
	return changes
}

// look looks at the line of a limit: its first runs are claimed, or the line is closed if it is empty.
func (w *limitsWorld) look(node int, limit carillon.Limit) (changes []carillon.Change) {
	ctx, store := context.Background(), w.nodes[node].store
	name := carillon.HoldName{Namespace: carillon.DefaultNamespace, Hold: limit.Hold()}
	guards, err := store.Guards(ctx, carillon.GuardQuery{
		Namespace: name.Namespace, Keys: []string{name.Hold},
	})
	if w.may(err); err != nil || len(guards) == 0 {
		return nil
	}
	line := carillon.LimitLineOf(name, &guards[0])
	if w.rand.IntN(3) == 0 && !w.heal { // other nodes do something before the runs are read
		w.commit(w.decide(1 - node))
	}
	runs, err := store.Line(ctx, carillon.LineQuery{
		Lines: []carillon.HoldName{name}, Until: carillon.Now(), Limit: 3,
	})
	if w.may(err); err != nil {
		return nil
	}
	candidates, err := w.nodes[node].Candidates(ctx, runs, "")
	if w.may(err); err != nil {
		return nil
	}
	if len(candidates) == 0 {
		if c, closes := line.Closed(); closes {
			changes = append(changes, c)
			w.lineUp(1 - node)
		}
		return changes
	}
	var first []carillon.Run
	for i := range candidates {
		if !line.Next(&candidates[i], true, carillon.Now()) {
			break
		}
		first = append(first, candidates[i].Run)
	}
	return w.claimRuns(node, first)
}

// lineUp often lets a node park all runs that come fresh and find a line or no room.
func (w *limitsWorld) lineUp(node int) {
	if w.heal || w.rand.IntN(2) == 0 {
		return
	}
	w.submit(node)
	w.losers = append(w.losers, w.runs(carillon.StateWaiting)...)
	w.commit(limitsCommit{node, w.decideAgain(node)})
}

// commit commits what nodes have decided, at the same time. Runs whose claims lost are decided again later.
func (w *limitsWorld) commit(commits ...limitsCommit) {
	var all sync.WaitGroup
	lost, errs := make([][]int, len(commits)), make([]error, len(commits))
	for i, c := range commits {
		all.Go(func() { lost[i], errs[i] = w.nodes[c.node].Commit(context.Background(), c.changes) })
	}
	all.Wait()
	for i, c := range commits {
		w.may(errs[i])
		for _, k := range lost[i] {
			if len(c.changes[k].Runs) == 0 {
				continue
			}
			runs, err := w.truth.Runs(context.Background(), idsOf(c.changes[k].Runs[:1]), false)
			w.must(err)
			if len(runs) == 1 && runs[0].State == carillon.StateWaiting {
				w.losers = append(w.losers, runs[0])
			}
		}
	}
}

// runs are all runs in some states.
func (w *limitsWorld) runs(states ...carillon.State) []carillon.Run {
	page, err := w.truth.FindRuns(context.Background(), carillon.RunQuery{States: states, Limit: 1000})
	w.must(err)
	ids := idsOf(page.Runs)
	runs, err := w.truth.Runs(context.Background(), ids, false) // with everything that a decision needs
	w.must(err)
	return sortRuns(runs)
}

func (w *limitsWorld) some(runs []carillon.Run) []carillon.Run {
	w.rand.Shuffle(len(runs), func(i, k int) { runs[i], runs[k] = runs[k], runs[i] })
	return runs[:min(len(runs), 1+w.rand.IntN(4))]
}

func (w *limitsWorld) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// may takes the errors of calls that failed because they were made to, and of commands that came too late.
func (w *limitsWorld) may(err error) {
	w.t.Helper()
	if err != nil && !errors.Is(err, ErrInjected) && !errors.Is(err, carillon.ErrConflict) {
		w.t.Fatal(err)
	}
}
