package porttest

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/idgen"
	"github.com/carillon-run/carillon/internal/ledger"
	"github.com/carillon-run/carillon/internal/operations"
)

// Operations are not a part of a store, but their records need stores that compare guards, in changes with
// guards of two namespaces, and that page through jobs while these change.
var storeOperations = []storeCase{
	{"operations: each job that matches gets one run, whatever fails", func(t *storeTest) {
		t.operate(carillon.OperationRun, func(job *carillon.Job, added int, touched bool) bool {
			return added == 1 || touched && added == 0
		})
	}},
	{"operations: all jobs that match are paused, whatever fails", func(t *storeTest) {
		t.operate(carillon.OperationPause, func(job *carillon.Job, added int, touched bool) bool {
			return added == 0 && (job.State == carillon.JobPaused || touched)
		})
	}},
	{"operations: all jobs that match are canceled, whatever fails", func(t *storeTest) {
		t.operate(carillon.OperationCancel, func(job *carillon.Job, added int, touched bool) bool {
			return added == 0 && (job.State == carillon.JobCanceled || touched)
		})
	}},
}

// operated is the world of an operation: its jobs, and what happens to them meanwhile.
type operated struct {
	*storeTest
	random *rand.Rand
	ledger *ledger.Ledger // that does not fail
	jobs   []carillon.Job
	later  []carillon.Job // created after the operation began
	// touched are the jobs that users changed in a way that can take them out of the operation.
	touched map[carillon.JobID]bool
}

const operatedJobs = 60

// operate performs an operation on nodes that are killed again and again, over a store of which calls fail,
// while users add, edit, pause and cancel jobs. Then wanted says whether a job that matches is as it should
// be: the job, how many runs were added to it, and whether a user touched it.
func (t *storeTest) operate(
	kind carillon.OperationKind, wanted func(job *carillon.Job, added int, touched bool) bool,
) {
	seed := uint64(Seed(t.T))
	w := &operated{
		storeTest: t, random: rand.New(rand.NewPCG(seed, 0)), touched: map[carillon.JobID]bool{},
		ledger: ledger.New(ledger.Config{Store: t.store, IDs: idgen.New(1, carillon.Never)}),
	}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = w.ledger.Run(ctx) })
	defer func() { stop(); running.Wait() }()

	for range operatedJobs {
		w.jobs = append(w.jobs, w.add())
	}
	op := carillon.Operation{
		Namespace: carillon.DefaultNamespace, Kind: kind, Filter: carillon.JobFilter{Type: "report.*"},
		Rate: []int{0, 400, 10_000}[w.random.IntN(3)],
	}
	t.must(op.Admit())
	t.must(w.ledger.StartOperation(ctx, &op))
	var users sync.WaitGroup
	over := make(chan struct{})
	users.Go(func() {
		for range 100 {
			select {
			case <-over:
				return
			default:
				w.act()
			}
		}
	})
	for life := uint64(0); ; life += 2 {
		record, err := w.ledger.Operation(ctx, op.Namespace, op.ID)
		t.must(err)
		if op = record.Operation; op.State.Over() {
			break
		}
		var nodes sync.WaitGroup
		for i := range uint64(2) {
			nodes.Go(func() { t.live(rand.New(rand.NewPCG(seed, 1+life+i))) })
		}
		nodes.Wait()
	}
	close(over)
	users.Wait()
	w.check(&op, wanted)
}

// live performs operations on one node until its process is killed: after some calls of the store no other
// call of it does anything.
func (t *storeTest) live(random *rand.Rand) {
	ctx, kill := context.WithCancel(context.Background())
	defer kill()
	left := 1 + random.IntN(1000)
	store := &Faulty{store: t.store, calls: map[string]int{}, plan: func(string, int) fault {
		left--
		switch at := random.Float64(); {
		case left <= 0:
			kill()
			return refused
		case at < 0.01:
			return refused
		case at < 0.02:
			return unknown
		}
		return fine
	}}
	node := ledger.New(ledger.Config{Store: store, IDs: idgen.New(2, carillon.Never)})
	loop := operations.New(operations.Config{
		Store: store, Ledger: node, Logger: slog.New(slog.DiscardHandler),
		Look: time.Millisecond, Retry: time.Millisecond,
	})
	var parts sync.WaitGroup
	parts.Go(func() { _ = node.Run(ctx) })
	parts.Go(func() { _ = loop.Run(ctx) })
	parts.Wait()
}

func (w *operated) add() carillon.Job {
	def := carillon.Definition{Name: "job " + strconv.Itoa(w.random.IntN(10))}
	def.Type = []string{"report.day", "report.week", "mail"}[w.random.IntN(3)]
	def.Target.Handler = &carillon.Handler{}
	def.Schedule.Every = carillon.Duration(time.Hour)
	def.Overlap = []carillon.Overlap{
		carillon.OverlapAllow, carillon.OverlapSkip, carillon.OverlapQueueAll,
	}[w.random.IntN(3)]
	w.must(def.Admit(carillon.Now()))
	jobs, err := w.ledger.Submit(
		context.Background(), carillon.DefaultNamespace, []carillon.Definition{def},
	)
	w.must(err)
	return jobs[0]
}

// act is one action of a user.
func (w *operated) act() {
	ctx, id := context.Background(), w.jobs[w.random.IntN(len(w.jobs))].ID
	var err error
	switch w.random.IntN(10) {
	case 0, 1, 2, 3:
		w.later = append(w.later, w.add())
	case 4, 5, 6, 7:
		_, err = w.ledger.EditJob(ctx, carillon.DefaultNamespace, id, func(d *carillon.Definition) error {
			d.Name += "."
			return nil
		})
	case 8:
		w.touched[id] = true
		_, err = w.ledger.PauseJob(ctx, carillon.DefaultNamespace, id)
	case 9:
		w.touched[id] = true
		_, err = w.ledger.CancelJob(ctx, carillon.DefaultNamespace, id, false)
	}
	if err != nil && !errors.Is(err, carillon.ErrConflict) {
		w.must(err)
	}
}

func (w *operated) check(
	op *carillon.Operation, wanted func(job *carillon.Job, added int, touched bool) bool,
) {
	if op.State != carillon.OperationDone || op.Failed > 0 {
		w.Fatalf("the operation is %s: %+v", op.State, op)
	}
	matching, untouched := 0, 0
	for _, job := range w.jobs {
		job, added := w.now(job)
		matches := op.Filter.Chooses(&job)
		switch touched := w.touched[job.ID]; {
		case !matches && (added > 0 || job.State != carillon.JobActive && !touched):
			w.Errorf("%s of type %s is %s with %d runs added", job.ID, job.Type, job.State, added)
		case matches && !wanted(&job, added, touched):
			w.Errorf("%s is %s with %d runs added; a user touched it: %v", job.ID, job.State, added, touched)
		case matches && !touched:
			untouched++
			matching++
		case matches:
			matching++
		}
	}
	for _, job := range w.later {
		now, added := w.now(job)
		if job.Created > op.Created && (added > 0 || now.State != carillon.JobActive) {
			w.Errorf("%s, created after the operation, is %s with %d runs added", job.ID, now.State, added)
		}
	}
	if op.Done < untouched || op.Done+op.Skipped > matching+len(w.later) {
		w.Errorf("%d of %d done, %d skipped: %d jobs match, %d untouched", op.Done, op.Total, op.Skipped,
			matching, untouched)
	}
}

// now reads a job, and how many runs were added to it.
func (w *operated) now(job carillon.Job) (_ carillon.Job, added int) {
	ctx := context.Background()
	jobs, err := w.store.Jobs(ctx, []carillon.JobVersion{{Job: job.ID}})
	w.must(err)
	page, err := w.store.FindRuns(ctx, carillon.RunQuery{Namespace: job.Namespace, Job: job.ID})
	w.must(err)
	for i := range page.Runs {
		if !page.Runs[i].ByClock() {
			added++
		}
	}
	return jobs[0], added
}
