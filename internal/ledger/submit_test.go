package ledger_test

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/idgen"
	"github.com/carillon-run/carillon/internal/ledger"
)

// slots are the free slots of a worker that serves the queue "default".
type slots struct {
	mu       sync.Mutex
	free     int
	coming   int  // those that pulls asked for
	starting bool // due runs wait, and some are on their way
}

func (s *slots) Reserve(run *carillon.Run, _ *carillon.Job, _ carillon.Time) (string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.free == 0 || run.Queue != "default" {
		return "", false
	}
	s.free--
	return "worker_1", true
}

func (s *slots) Starting() bool { return s.starting }

func (s *slots) Free(run *carillon.Run) (int, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if run.Queue != "default" {
		return 0, 0
	}
	return s.free, s.coming
}

func (s *slots) Release(ids []carillon.RunID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free += len(ids)
}

func TestWhatIsDueAtOnceIsWrittenClaimedIfASlotIsFree(t *testing.T) {
	for name, c := range map[string]struct {
		edit    func(*carillon.Definition)
		claimed bool
	}{
		"due now": {nil, true},
		"due a moment ago": {
			func(d *carillon.Definition) { d.Schedule.At = carillon.Now() - 999 }, true,
		},
		"long ago, it runs late": {
			func(d *carillon.Definition) { d.Schedule.At = carillon.Now() - 99_999 }, true,
		},
		"long ago, it may be skipped": {func(d *carillon.Definition) {
			d.Schedule.At, d.Misfire.Policy = carillon.Now()-99_999, carillon.MisfireSkip
		}, false},
		"a moment ago, a short window": {
			func(d *carillon.Definition) { d.Schedule.At, d.Misfire = carillon.Now()-900, shortWindow }, true,
		},
		"due later": {
			func(d *carillon.Definition) { d.Schedule.After = carillon.Duration(time.Millisecond) }, false,
		},
		"recurring":     {every(time.Minute, carillon.OverlapAllow), false},
		"another queue": {func(d *carillon.Definition) { d.Queue = "other" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			s, free := newStore(), &slots{free: 1}
			var told []carillon.Change
			withSlots(t, ledger.Config{Store: s}, free, func(t *testing.T, l *ledger.Ledger) {
				job := submit(t, l, c.edit)
				run := unfinished(t, s, job.ID)[0]
				if c.claimed != (run.State == carillon.StateClaimed) || c.claimed != (free.free == 0) {
					t.Fatalf("%s, %d slots free", run.State, free.free)
				}
				if c.claimed &&
					(run.Attempt != 1 || run.Worker != "worker_1" || run.Claimed != carillon.Now()) {
					t.Errorf("%+v", run)
				}
				if len(told) != 1 || told[0].Job.ID != job.ID || told[0].Runs[0].ID != run.ID ||
					told[0].Runs[0].State != run.State {
					t.Errorf("told %+v", told)
				}
			}, func(c []carillon.Change) { told = append(told, c...) })
		})
	}
}

var shortWindow = carillon.Misfire{
	Policy: carillon.MisfireAll, Max: 1, Window: carillon.Duration(time.Millisecond),
}

func TestABatchTakesTheSlotsThereAre(t *testing.T) {
	s, free := newStore(), &slots{free: 2}
	withSlots(t, ledger.Config{Store: s}, free, func(t *testing.T, l *ledger.Ledger) {
		defs := make([]carillon.Definition, 5)
		for i := range defs {
			defs[i] = define(t, nil)
		}
		jobs, err := l.Submit(t.Context(), "default", defs)
		if err != nil || len(jobs) != 5 {
			t.Fatal(jobs, err)
		}
		claimed := 0
		for i, job := range jobs {
			if unfinished(t, s, job.ID)[0].State == carillon.StateClaimed {
				claimed++
			}
			if i > 0 && job.ID <= jobs[i-1].ID || job.Rev != 1 || job.Version != 1 {
				t.Errorf("job %d: %s, revision %d, version %d", i, job.ID, job.Rev, job.Version)
			}
		}
		if claimed != 2 || free.free != 0 || len(s.sizes()) != 1 {
			t.Errorf("%d claimed, %d slots free, commits %v", claimed, free.free, s.sizes())
		}
	})
}

func TestAFailedSubmitGivesItsSlotsBack(t *testing.T) {
	s, free := newStore(), &slots{free: 3}
	outage := errors.New("the disk is away")
	withSlots(t, ledger.Config{Store: s}, free, func(t *testing.T, l *ledger.Ledger) {
		s.set(func(s *store) { s.fail = outage })
		defs := []carillon.Definition{define(t, nil), define(t, nil)}
		if _, err := l.Submit(t.Context(), "default", defs); !errors.Is(err, outage) || free.free != 3 {
			t.Errorf("%v, %d slots free, want 3", err, free.free)
		}
	})
}

func TestASubmitWithAnIDThatExistsIsAnError(t *testing.T) {
	s := newStore()
	within(t, ledger.Config{Store: s}, func(t *testing.T, l *ledger.Ledger) {
		submit(t, l, nil)
		twin := ledger.New(ledger.Config{Store: s, IDs: idgen.New(1, carillon.Never)})
		go twin.Run(t.Context())
		if _, err := twin.Submit(t.Context(), "default", []carillon.Definition{define(t, nil)}); err == nil {
			t.Error("a second job with the id of the first")
		}
	})
}

func TestNoJobIsMadeAfterTheLeaseOfTheNodeNumber(t *testing.T) {
	s := newStore()
	l := ledger.New(ledger.Config{Store: s, IDs: idgen.New(1, 1)})
	if jobs, err := l.Submit(t.Context(), "default", []carillon.Definition{define(t, nil)}); err == nil {
		t.Errorf("%v", jobs)
	}
}

func TestTheLedgerKnowsHowLongAChangeWaits(t *testing.T) {
	s := newStore()
	s.slow = time.Second
	within(t, ledger.Config{Store: s, MaxBatch: 10}, func(t *testing.T, l *ledger.Ledger) {
		if wait := l.Wait(time.Now()); wait != 0 {
			t.Errorf("%s although nothing waits", wait)
		}
		for range 20 { // by now the ledger knows what a commit takes
			submit(t, l, nil)
		}
		var callers sync.WaitGroup
		for range 36 {
			callers.Go(func() { submit(t, l, nil) })
		}
		synctest.Wait()
		wait := l.Wait(time.Now())
		began := time.Now()
		callers.Go(func() { submit(t, l, nil) })
		callers.Wait()
		if took := time.Since(began); wait < took-2*time.Second || wait > took+2*time.Second {
			t.Errorf("a wait of %s was expected, and it took %s", wait, took)
		}
		if wait := l.Wait(time.Now()); wait != 0 {
			t.Errorf("%s although nothing waits any more", wait)
		}
	})
}

func TestRunsThatStartOvertakeSubmitsThatWait(t *testing.T) {
	s := newStore()
	var told [][]carillon.Change
	within(t, ledger.Config{Store: s, MaxBatch: 40}, func(t *testing.T, l *ledger.Ledger) {
		first := submit(t, l, nil)
		s.set(func(s *store) { s.gate = make(chan struct{}) })
		var callers sync.WaitGroup
		for range 60 {
			callers.Go(func() { submit(t, l, nil) })
			synctest.Wait()
		}
		callers.Go(func() {
			if _, err := l.PauseJob(t.Context(), first.Namespace, first.ID); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		told = nil
		close(s.gate)
		callers.Wait()
	}, func(committed []carillon.Change) { told = append(told, committed) })
	paused := slices.IndexFunc(told, func(committed []carillon.Change) bool {
		return slices.ContainsFunc(committed, func(c carillon.Change) bool {
			return c.Job != nil && c.Job.State == carillon.JobPaused
		})
	})
	// The first commit was under way. The next one has the change, and submits in a quarter of its room.
	if paused != 1 || len(told[1]) != 1+40/4 {
		var sizes []int
		for _, committed := range told {
			sizes = append(sizes, len(committed))
		}
		t.Errorf("the change is in commit %d of %v", paused, sizes)
	}
}

// A run with a limit takes its slot of the limit when it is claimed: a submit does not claim it.
func TestAJobThatALimitOfOperatorsBoundsIsNotSubmittedClaimed(t *testing.T) {
	s, free := newStore(), &slots{free: 10}
	withSlots(t, ledger.Config{Store: s}, free, func(t *testing.T, l *ledger.Ledger) {
		l.UseLimits(func(job *carillon.Job) []carillon.Limit {
			if job.Queue != "mail" {
				return job.Limits
			}
			return append(job.Limits, carillon.Limit{
				Of: carillon.LimitQueue, Key: "mail", Concurrency: 1, Weight: 1,
			})
		})
		for queue, want := range map[string]carillon.State{
			"mail": carillon.StateWaiting, "default": carillon.StateClaimed,
		} {
			job := submit(t, l, func(d *carillon.Definition) { d.Queue = queue })
			run := unfinished(t, s, job.ID)[0]
			if run.State != want {
				t.Errorf("a run of the queue %s is %s", queue, run.State)
			}
			if run = claimedOf(t, l, run); queue == "mail" && run.Slots != "queue/mail" {
				t.Errorf("its claim took the slots %q", run.Slots)
			}
		}
	})
}

// claimedOf is the run, claimed if it was not yet.
func claimedOf(t *testing.T, l *ledger.Ledger, run carillon.Run) carillon.Run {
	t.Helper()
	if run.State.Held() {
		return run
	}
	return claim(t, l, run)
}
