package porttest

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/adapter/mem"
	"github.com/carillon-run/carillon/internal/idgen"
	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// Model does the same random things to the store under test and to mem's store, within the rules of package
// carillon and against them, and compares every answer. A failure names the seed that reproduces it.
func Model(t *testing.T, open func(t *testing.T) carillon.Store) {
	const worlds, steps = 8, 60
	begun, seed := time.Now(), Seed(t)
	for i := range worlds {
		w := newWorld(t, open(t), seed+int64(i))
		for step := range steps {
			w.step()
			w.compare(step%10 == 0)
			if step >= 30 && time.Since(begun) > modelTime {
				break
			}
		}
		w.forgetAll()
		w.compare(true)
		if time.Since(begun) > modelTime {
			break
		}
	}
}

// modelTime is the time after which a model check stops: with the race detector some engines are very slow.
const modelTime = 3 * time.Second

// world is what has happened so far, in both stores.
type world struct {
	t     *testing.T
	rand  *rand.Rand
	model *mem.Store
	store carillon.Store
	now   carillon.Time
	ids   *idgen.IDs

	jobs    []carillon.JobID
	runs    map[carillon.RunID]bool
	touched map[carillon.JobID]bool // by the last step
	changes []carillon.Change       // committed, won or lost; hostile steps repeat them
}

func newWorld(t *testing.T, store carillon.Store, seed int64) *world {
	return &world{
		t: t, rand: rand.New(rand.NewPCG(uint64(seed), 1)), model: mem.NewStore(), store: store, now: epoch,
		ids: idgen.New(1, carillon.Never), runs: map[carillon.RunID]bool{},
	}
}

// step commits a few changes at once, or forgets, or lets time pass.
func (w *world) step() {
	w.now += carillon.Time(w.rand.Int64N(90_000))
	if w.rand.IntN(12) == 0 {
		w.forget(1 + w.rand.IntN(5))
		return
	}
	var batch []carillon.Change
	for range 1 + w.rand.IntN(6) {
		if c, ok := w.change(); ok {
			batch = append(batch, c)
		}
	}
	w.join(batch)
	w.commit(batch)
}

func (w *world) commit(batch []carillon.Change) {
	want, err := w.model.Commit(context.Background(), batch)
	w.must(err)
	got, err := w.store.Commit(context.Background(), batch)
	w.must(err)
	if !slices.Equal(got, want) {
		w.t.Logf("committed:\n%s", describe(batch))
	}
	w.equal("lost", got, want)
	w.touched = map[carillon.JobID]bool{}
	for _, c := range batch {
		if c.Job != nil {
			w.touched[c.Job.ID] = true
		}
		if c.Job != nil && !slices.Contains(w.jobs, c.Job.ID) {
			w.jobs = append(w.jobs, c.Job.ID)
		}
		for _, run := range c.Runs {
			w.runs[run.ID] = true
		}
		w.changes = append(w.changes, c)
	}
}

// describe describes a batch that went wrong.
func describe(batch []carillon.Change) string {
	var b strings.Builder
	for i, c := range batch {
		fmt.Fprintf(&b, "%d:", i)
		if c.Joined {
			b.WriteString(" joined;")
		}
		if c.Job != nil {
			fmt.Fprintf(&b, " job %s r%d v%d %s;", c.Job.ID, c.Job.Rev, c.Job.Version, c.Job.State)
		}
		for _, run := range c.Runs {
			fmt.Fprintf(&b, " run %s r%d %s;", run.ID, run.Rev, run.State)
		}
		for _, g := range c.Guards {
			fmt.Fprintf(&b, " guard %s %s r%d %q %s;", g.Namespace, g.Key, g.Rev, g.Value, g.Expires)
		}
		for _, g := range c.Compared {
			fmt.Fprintf(&b, " compared %s %s r%d;", g.Namespace, g.Key, g.Rev)
		}
		for _, id := range c.Retried {
			fmt.Fprintf(&b, " retried %s;", id)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func (w *world) forget(limit int) int {
	rule := carillon.Retention{
		Runs:        carillon.Duration(w.rand.IntN(3)) * carillon.Duration(time.Minute),
		DeadLetters: carillon.Duration(w.rand.IntN(3)) * carillon.Duration(2*time.Minute),
	}
	want, err := w.model.Forget(context.Background(), rule, w.now, limit)
	w.must(err)
	got, err := w.store.Forget(context.Background(), rule, w.now, limit)
	w.must(err)
	w.equal("forgotten", got, want)
	return got
}

// forgetAll ends the world: no finished run is kept.
func (w *world) forgetAll() {
	w.now += carillon.Time(24 * time.Hour / time.Millisecond)
	rule := carillon.Retention{Runs: 1, DeadLetters: 1}
	for {
		want, err := w.model.Forget(context.Background(), rule, w.now, 7)
		w.must(err)
		got, err := w.store.Forget(context.Background(), rule, w.now, 7)
		w.must(err)
		w.equal("forgotten", got, want)
		if got == 0 {
			return
		}
	}
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) equal(what string, got, want any) {
	w.t.Helper()
	if reflect.DeepEqual(got, want) { // nearly always, and many times faster
		return
	}
	if d := gocmp.Diff(want, got, rows...); d != "" {
		w.t.Fatalf("%s (-model +store):\n%s", what, d)
	}
}

// rows compares rows of a store: what was parsed of a schedule or a workflow is not part of a row, and nil
// equals empty.
var rows = []gocmp.Option{
	cmpopts.IgnoreUnexported(carillon.Schedule{}, carillon.Workflow{}, carillon.WorkflowNode{}),
	cmpopts.EquateEmpty(),
}

func sortRuns(runs []carillon.Run) []carillon.Run {
	slices.SortFunc(runs, func(a, b carillon.Run) int {
		return cmp.Or(cmp.Compare(a.ID.Job, b.ID.Job), cmp.Compare(a.ID.Due, b.ID.Due))
	})
	return runs
}

func sortJobs(jobs []carillon.Job) []carillon.Job {
	slices.SortFunc(jobs, func(a, b carillon.Job) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Version, b.Version))
	})
	return jobs
}

func sortGuards(guards []carillon.Guard) []carillon.Guard {
	slices.SortFunc(guards, func(a, b carillon.Guard) int { return cmp.Compare(a.Key, b.Key) })
	return guards
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }
