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

// bury submits jobs whose runs fail for good, several at the same time.
func (h *house) bury(n int, reason string) (letters []carillon.Run) {
	h.Helper()
	defs := make([]carillon.Definition, n)
	for i := range defs {
		defs[i].Type, defs[i].Target.Handler = "report", &carillon.Handler{}
		if err := defs[i].Admit(carillon.Now()); err != nil {
			h.Fatal(err)
		}
	}
	jobs, err := h.ledger.Submit(context.Background(), "default", defs)
	if err != nil {
		h.Fatal(err)
	}
	var changes []carillon.Change
	for i := range jobs {
		page, err := h.store.FindRuns(
			context.Background(), carillon.RunQuery{Namespace: "default", Job: jobs[i].ID},
		)
		if err != nil {
			h.Fatal(err)
		}
		run := page.Runs[0].Claim("worker", carillon.Now())
		run.About = &carillon.About{Type: "report"}
		run = run.End(carillon.StateFailed, reason, carillon.Now())
		letters, changes = append(letters, run), append(changes, carillon.Change{Runs: []carillon.Run{run}})
	}
	if lost, err := h.ledger.Commit(context.Background(), changes); len(lost) > 0 || err != nil {
		h.Fatal(lost, err)
	}
	return letters
}

func (h *house) redrive(f carillon.DeadFilter, rate int) carillon.OperationID {
	h.Helper()
	op := carillon.Operation{
		Namespace: "default", Kind: carillon.OperationRedrive, Dead: &f, Rate: rate,
	}
	if err := op.Admit(); err != nil {
		h.Fatal(err)
	}
	if err := h.ledger.StartOperation(context.Background(), &op); err != nil {
		h.Fatal(err)
	}
	return op.ID
}

// dead counts the dead letters, retries the runs that repeat each of some letters.
func (h *house) dead() int {
	h.Helper()
	page, err := h.store.FindRuns(
		context.Background(), carillon.RunQuery{Namespace: "default", Dead: true, Limit: 100_000},
	)
	if err != nil {
		h.Fatal(err)
	}
	return len(page.Runs)
}

func (h *house) retries(letters []carillon.Run) map[int]int {
	h.Helper()
	n := map[int]int{}
	for i := range letters {
		page, err := h.store.FindRuns(
			context.Background(), carillon.RunQuery{Namespace: "default", Job: letters[i].ID.Job},
		)
		if err != nil {
			h.Fatal(err)
		}
		count := 0
		for j := range page.Runs {
			if page.Runs[j].RetryOf == letters[i].ID.Due {
				count++
			}
		}
		n[count]++
	}
	return n
}

func TestARedriveRetriesWhatItsFilterChooses(t *testing.T) {
	in(t, nil, func(h *house) {
		chosen, others := h.bury(500, "exit status 1"), h.bury(10, "killed")
		print, _ := carillon.FingerprintOf("exit status 2")
		id := h.redrive(carillon.DeadFilter{Fingerprint: print}, 0)
		time.Sleep(time.Millisecond)
		later := h.bury(5, "exit status 3")
		defer h.loop(h.store)()
		time.Sleep(time.Minute)
		h.expect(id, "done 500: 500 0 0")
		for name, c := range map[string]struct {
			letters []carillon.Run
			want    int // runs that repeat each of them
		}{
			"chosen letters": {chosen, 1}, "other letters": {others, 0},
			"letters that died after the operation began": {later, 0},
		} {
			if got := h.retries(c.letters); got[c.want] != len(c.letters) {
				t.Errorf("%s: runs that repeat them: %v", name, got)
			}
		}
		if n := h.dead(); n != len(others)+len(later) {
			t.Errorf("%d dead letters are left", n)
		}
	})
}

func TestARedriveKeepsItsRateIsCanceledWithinASecondAndGoesOnAfterARestart(t *testing.T) {
	const n, rate = 15_000, 1000
	in(t, nil, func(h *house) {
		letters := h.bury(n, "exit status 1")
		first := h.redrive(carillon.DeadFilter{All: true}, rate)
		stop := h.loop(h.store)
		time.Sleep(3 * time.Second)
		op := h.read(first).Operation
		if err := h.ledger.CancelOperation(context.Background(), &op); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		canceled := h.dead()
		time.Sleep(10 * time.Second)
		if left := h.dead(); left != canceled || left == n {
			t.Errorf("%d letters are left a second after the cancel, and %d later", canceled, left)
		}
		if done := h.read(first).Done; done != n-canceled {
			t.Errorf("%d letters were retried, and the record says %d", n-canceled, done)
		}
		stop()

		second := h.redrive(carillon.DeadFilter{Type: "report"}, rate)
		stop = h.loop(h.store)
		time.Sleep(3300 * time.Millisecond)
		stop() // as in a crash: what is pending may be done or not
		time.Sleep(time.Minute)
		resumed, left := time.Now(), h.dead()
		defer h.loop(h.store)()
		for !h.read(second).State.Over() {
			time.Sleep(100 * time.Millisecond)
		}
		took := time.Since(resumed).Seconds()
		if got := float64(left) / took; got < 0.95*float64(rate) || got > 1.05*float64(rate) {
			t.Errorf("%d letters in %.2f s: %.0f a second", left, took, got)
		}
		h.expect(second, fmt.Sprintf("done %d: %d 0 0", canceled, canceled))
		if got := h.retries(letters); got[1] != n {
			t.Errorf("runs that repeat the letters: %v", got)
		}
	})
}

func TestALetterIsRetriedOnceThoughCallsFail(t *testing.T) {
	in(t, nil, func(h *house) {
		letters := h.bury(300, "exit status 1")
		id := h.redrive(carillon.DeadFilter{All: true}, 0)
		random := rand.New(rand.NewPCG(uint64(porttest.Seed(t)), 0))
		lossy := porttest.Lossy(h.store, random, 0.02)
		quiet := h.ledger
		h.ledger = ledger.New(ledger.Config{Store: lossy, IDs: idgen.New(2, carillon.Never)})
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		go h.ledger.Run(ctx)
		stop := h.loop(lossy)
		time.Sleep(10 * time.Minute)
		stop()
		h.ledger = quiet
		h.expect(id, "done 300: 300 0 0")
		if got := h.retries(letters); got[1] != 300 {
			t.Errorf("runs that repeat the letters: %v", got)
		}
	})
}

func TestALetterThatIsGoneBeforeItsTurnIsSkippedOrDone(t *testing.T) {
	in(t, nil, func(h *house) {
		letters := h.bury(40, "exit status 1")
		job := letters[0].ID.Job // the operation begins with the latest
		id := h.redrive(carillon.DeadFilter{All: true}, 10)
		stop := h.loop(h.store)
		time.Sleep(700 * time.Millisecond)
		stop()
		for len(h.read(id).Pending) == 0 {
			t.Fatal("nothing is pending")
		}
		pending, err := carillon.ParseRunID(h.read(id).Pending[0])
		if err != nil {
			t.Fatal(err)
		}
		// A user is quicker with one, another one's job is canceled.
		if _, err := h.ledger.RetryDeadLetter(context.Background(), "default", pending, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := h.ledger.CancelJob(context.Background(), "default", job, false); err != nil {
			t.Fatal(err)
		}
		defer h.loop(h.store)()
		time.Sleep(time.Minute)
		h.expect(id, "done 40: 39 1 0")
		if n := h.dead(); n != 1 {
			t.Errorf("%d dead letters are left", n)
		}
	})
}

func TestLettersOfOneJobAreRetriedOneAfterTheOther(t *testing.T) {
	in(t, nil, func(h *house) {
		def := carillon.Definition{}
		def.Type, def.Target.Handler = "report", &carillon.Handler{}
		def.Schedule.Every = carillon.Duration(time.Hour)
		if err := def.Admit(carillon.Now()); err != nil {
			t.Fatal(err)
		}
		jobs, err := h.ledger.Submit(context.Background(), "default", []carillon.Definition{def})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 30 {
			run := carillon.NewRun(&jobs[0], carillon.Now().Add(-time.Duration(i+1)*time.Minute))
			run = run.Claim("worker", carillon.Now())
			run = run.End(carillon.StateFailed, "exit status 1", carillon.Now())
			job, err := h.store.Jobs(context.Background(), []carillon.JobVersion{{Job: jobs[0].ID}})
			if err != nil {
				t.Fatal(err)
			}
			c := carillon.Change{Job: &job[0], Runs: []carillon.Run{run}}
			lost, err := h.ledger.Commit(context.Background(), []carillon.Change{c})
			if len(lost) > 0 || err != nil {
				t.Fatal(lost, err)
			}
		}
		id := h.redrive(carillon.DeadFilter{Job: jobs[0].ID}, 0)
		defer h.loop(h.store)()
		time.Sleep(time.Minute)
		h.expect(id, "done 30: 30 0 0")
	})
}
