package operations_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/idgen"
	"github.com/carillon-run/carillon/internal/ledger"
	"github.com/carillon-run/carillon/porttest"
)

// submit submits jobs of two types, in turn.
func (h *house) submit(n int, overlap carillon.Overlap) (jobs []carillon.Job) {
	h.Helper()
	for i := range n {
		def := carillon.Definition{Overlap: overlap}
		def.Name, def.Type = fmt.Sprint("job ", i), []string{"report.day", "mail"}[i%2]
		def.Target.Handler, def.Schedule.Every = &carillon.Handler{}, carillon.Duration(24*time.Hour)
		if err := def.Admit(carillon.Now()); err != nil {
			h.Fatal(err)
		}
		added, err := h.ledger.Submit(context.Background(), "default", []carillon.Definition{def})
		if err != nil {
			h.Fatal(err)
		}
		jobs = append(jobs, added...)
	}
	return jobs
}

// begin begins an operation on the reports.
func (h *house) begin(kind carillon.OperationKind, rate int) carillon.OperationID {
	h.Helper()
	op := carillon.Operation{
		Namespace: "default", Kind: kind, Filter: carillon.JobFilter{Type: "report.*"}, Rate: rate,
	}
	if err := op.Admit(); err != nil {
		h.Fatal(err)
	}
	if err := h.ledger.StartOperation(context.Background(), &op); err != nil {
		h.Fatal(err)
	}
	return op.ID
}

// runs counts the runs of a job that were added.
func (h *house) runs(job carillon.JobID) (n int) {
	h.Helper()
	page, err := h.store.FindRuns(context.Background(), carillon.RunQuery{Namespace: "default", Job: job})
	if err != nil {
		h.Fatal(err)
	}
	for i := range page.Runs {
		if !page.Runs[i].ByClock() {
			n++
		}
	}
	return n
}

func (h *house) state(job carillon.JobID) carillon.JobState {
	h.Helper()
	jobs, err := h.store.Jobs(context.Background(), []carillon.JobVersion{{Job: job}})
	if err != nil || len(jobs) != 1 {
		h.Fatal(jobs, err)
	}
	return jobs[0].State
}

func TestAnOperationPausesAndResumesJobs(t *testing.T) {
	in(t, nil, func(h *house) {
		defer h.loop(h.store)()
		jobs := h.submit(500, "") // more than are read at a time
		id := h.begin(carillon.OperationPause, 100)
		time.Sleep(time.Millisecond)
		later := h.submit(1, "")[0]
		time.Sleep(time.Minute)
		h.expect(id, "done 250: 250 0 0")
		for i, job := range jobs {
			if paused := h.state(job.ID) == carillon.JobPaused; paused != (i%2 == 0) {
				t.Errorf("%s is %s", job.Type, h.state(job.ID))
			}
		}
		if state := h.state(later.ID); state != carillon.JobActive {
			t.Errorf("a job that was created after the operation began is %s", state)
		}
		id = h.begin(carillon.OperationResume, 0)
		time.Sleep(time.Minute)
		h.expect(id, "done 250: 250 0 0")
		for _, job := range jobs {
			if state := h.state(job.ID); state != carillon.JobActive {
				t.Errorf("%s is %s", job.Type, state)
			}
		}
	})
}

func TestARunIsAddedOnceThoughCallsFail(t *testing.T) {
	for _, overlap := range []carillon.Overlap{carillon.OverlapAllow, carillon.OverlapSkip} {
		in(t, nil, func(h *house) {
			jobs := h.submit(100, overlap)
			id := h.begin(carillon.OperationRun, 0)
			random := rand.New(rand.NewPCG(uint64(porttest.Seed(t)), 0))
			lossy := porttest.Lossy(h.store, random, 0.05)
			quiet := h.ledger
			h.ledger = ledger.New(ledger.Config{Store: lossy, IDs: idgen.New(2, carillon.Never)})
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			go h.ledger.Run(ctx)
			stop := h.loop(lossy)
			time.Sleep(10 * time.Minute)
			stop()
			h.ledger = quiet
			h.expect(id, "done 50: 50 0 0")
			for i, job := range jobs {
				if n := h.runs(job.ID); n != (i+1)%2 {
					t.Errorf("%s of overlap %s got %d runs", job.Type, overlap, n)
				}
			}
		})
	}
}

func TestAJobThatChangesBeforeItsTurnIsSkipped(t *testing.T) {
	for kind, want := range map[carillon.OperationKind]string{
		carillon.OperationPause: "done 50: 49 0 1", carillon.OperationRun: "done 50: 49 0 1",
		carillon.OperationCancel: "done 50: 50 0 0", // it is as it should be
	} {
		in(t, nil, func(h *house) {
			jobs := h.submit(100, "")
			id := h.begin(kind, 50)
			stop := h.loop(h.store)
			time.Sleep(700 * time.Millisecond) // counted, and the first jobs are pending
			stop()
			pending := h.read(id).Pending
			if len(pending) == 0 {
				t.Fatal("no job is pending")
			}
			first, err := carillon.ParseJobID(pending[0])
			if err != nil {
				t.Fatal(err)
			}
			if _, err := h.ledger.CancelJob(context.Background(), "default", first, false); err != nil {
				t.Fatal(err)
			}
			defer h.loop(h.store)()
			time.Sleep(time.Minute)
			h.expect(id, want)
			if n := h.runs(jobs[98].ID); kind == carillon.OperationRun && n > 1 {
				t.Errorf("%d runs", n)
			}
		})
	}
}

func TestRunsAreNotAddedAfterADayOfStandstill(t *testing.T) {
	in(t, nil, func(h *house) {
		h.submit(100, carillon.OverlapAllow)
		id := h.begin(carillon.OperationRun, 20)
		stop := h.loop(h.store)
		time.Sleep(1600 * time.Millisecond)
		stop()
		before := h.read(id)
		time.Sleep(25 * time.Hour)
		defer h.loop(h.store)()
		time.Sleep(time.Minute)
		h.expect(id, fmt.Sprintf("done 50: %d %d 0", 50-len(before.Pending), len(before.Pending)))
		if len(before.Pending) == 0 || h.read(id).Errors[0].Item != before.Pending[0] {
			t.Errorf("pending %s, errors %v", before.Pending, h.read(id).Errors)
		}
	})
}

func TestACancelSkipsAJobThatHasFinishedMeanwhile(t *testing.T) {
	in(t, nil, func(h *house) {
		def := carillon.Definition{}
		def.Type, def.Target.Handler = "report.day", &carillon.Handler{}
		def.Schedule.After = carillon.Duration(time.Hour)
		if err := def.Admit(carillon.Now()); err != nil {
			t.Fatal(err)
		}
		defs := []carillon.Definition{def, def, def}
		if _, err := h.ledger.Submit(context.Background(), "default", defs); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
		id := h.begin(carillon.OperationCancel, 1)
		stop := h.loop(h.store)
		for len(h.read(id).Pending) == 0 {
			time.Sleep(10 * time.Millisecond)
		}
		stop()
		first, err := carillon.ParseJobID(h.read(id).Pending[0])
		if err != nil {
			t.Fatal(err)
		}
		page, err := h.store.FindRuns(
			context.Background(), carillon.RunQuery{Namespace: "default", Job: first, Limit: 1},
		)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.ledger.CancelRun(context.Background(), "default", page.Runs[0].ID); err != nil {
			t.Fatal(err)
		}
		defer h.loop(h.store)()
		time.Sleep(time.Minute)
		h.expect(id, "done 3: 2 0 1")
		if state := h.state(first); state == carillon.JobCanceled {
			t.Error("the finished job is canceled")
		}
	})
}
