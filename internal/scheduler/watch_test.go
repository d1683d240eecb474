package scheduler_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/executor"
	"github.com/carillon-run/carillon/worker/protocol"
)

// claimFor writes a claim of a waiting run as another process would: no node here is told.
func (h *house) claimFor(worker string, run carillon.Run) carillon.Run {
	h.t.Helper()
	candidates, err := h.nodes[0].ledger.Candidates(context.Background(), []carillon.Run{run}, worker)
	if err != nil || len(candidates) != 1 {
		h.t.Fatalf("%d dues, %v", len(candidates), err)
	}
	_, c := candidates[0].Decide(h.clock.Now())
	if lost, err := h.truth.Commit(context.Background(), []carillon.Change{c}); err != nil || len(lost) > 0 {
		h.t.Fatalf("lost %v, %v", lost, err)
	}
	return c.Runs[0]
}

// join opens a session for a worker that is not part of the house. hold then beats for it until lose ends its
// session or the worker dies.
func (h *house) join(worker string) {
	h.t.Helper()
	if err := h.coordinator.Join(context.Background(), []carillon.Member{
		{ID: worker, Kind: carillon.MemberWorker},
	}); err != nil {
		h.t.Fatal(err)
	}
}

func (h *house) hold(worker string, runs []carillon.Run) (die func()) {
	ctx, die := context.WithCancel(context.Background())
	h.t.Cleanup(die)
	beat := carillon.Beat{ID: worker}
	for _, run := range runs {
		beat.Holds = append(beat.Holds, run.Held())
	}
	go func() {
		for {
			beat.Heard, beat.Number = beat.Number, time.Now().UnixMilli()
			said, err := h.coordinator.Beat(ctx, []carillon.Beat{beat})
			if err != nil || said[0] == carillon.StandingOver {
				return
			}
			select {
			case <-time.After(protocol.BeatEvery):
			case <-ctx.Done():
				return
			}
		}
	}()
	return die
}

func (h *house) lose(worker string) {
	h.t.Helper()
	if err := h.coordinator.Leave(context.Background(), []string{worker}); err != nil {
		h.t.Fatal(err)
	}
}

func TestTheRunsOfADeadWorkerAreTakenBackAsCrashes(t *testing.T) {
	in(t, nil, func(h *house) {
		h.join("worker_x")
		var held []carillon.Run
		for _, run := range []carillon.Run{
			h.unheard(nil),
			h.unheard(func(d *carillon.Definition) {
				d.Schedule.Every, d.Schedule.StartsAt = carillon.Duration(time.Hour), h.clock.Now()
			}),
		} {
			held = append(held, h.claimFor("worker_x", run))
		}
		h.hold("worker_x", held)
		time.Sleep(30 * time.Second)
		if n := len(h.attempts()); n != 0 {
			h.t.Fatalf("%d attempts while their worker is alive", n)
		}
		begin := h.clock.Now()
		h.lose("worker_x")
		time.Sleep(time.Second)
		for _, run := range held {
			runs, err := h.truth.Runs(context.Background(), []carillon.RunID{run.ID}, false)
			if err != nil || len(runs) != 1 {
				h.t.Fatal(runs, err)
			}
			got := runs[0]
			if got.State != carillon.StateSucceeded || got.Attempt != 2 || got.Losses != 1 ||
				got.Crashes != 1 || got.Failures != 0 || got.Worker == "worker_x" {
				h.t.Errorf("%+v", got)
			}
			if late := got.Claimed.Sub(begin); late > time.Second {
				h.t.Errorf("begun again after %s", late)
			}
		}
	})
}

// unheard writes a job that is due now as another process would: no node here is told, and the sweep finds it
// later.
func (h *house) unheard(edit func(*carillon.Definition)) carillon.Run {
	h.t.Helper()
	def := carillon.Definition{}
	def.Type, def.Target.Handler = "test", &carillon.Handler{}
	if edit != nil {
		edit(&def)
	}
	if err := def.Admit(h.clock.Now() - 1); err != nil {
		h.t.Fatal(err)
	}
	h.unheardOf++
	job := &carillon.Job{Namespace: "default", ID: h.unheardOf, Definition: def}
	c := carillon.Submit(job, h.clock.Now()-1)
	if lost, err := h.truth.Commit(context.Background(), []carillon.Change{c}); err != nil || len(lost) > 0 {
		h.t.Fatal(lost, err)
	}
	run := c.Runs[0]
	run.Rev++
	return run
}

func TestAWorkerThatKillsItsWorkersIsQuarantined(t *testing.T) {
	in(t, nil, func(h *house) {
		run := h.claimFor(
			"worker_long_gone", h.unheard(func(d *carillon.Definition) { d.Retry.MaxCrashes = 1 }),
		)
		time.Sleep(time.Minute)
		run = h.runs(run.ID.Job)[0]
		if run.State != carillon.StateFailed || run.Crashes != 1 || len(h.attempts()) != 0 {
			h.t.Errorf("%s after %d crashes: %s", run.State, run.Crashes, run.Reason)
		}
	})
}

func TestAClaimThatItsWorkerDoesNotKnowOfIsTakenBackAsALoss(t *testing.T) {
	in(t, nil, func(h *house) {
		begin := h.clock.Now()
		job := h.claimFor(h.nodes[0].worker.ID(), h.unheard(nil)).ID.Job // the answer to the commit was lost
		time.Sleep(5 * time.Second)
		if run := h.runs(job)[0]; run.State != carillon.StateClaimed || run.Losses != 0 {
			h.t.Errorf("after 5s: %s, %d losses", run.State, run.Losses)
		}
		time.Sleep(time.Minute)
		run := h.runs(job)[0]
		if run.State != carillon.StateSucceeded || run.Losses != 1 || run.Crashes != 0 || run.Attempt != 2 {
			h.t.Errorf(
				"%s after %d attempts, %d losses, %d crashes", run.State, run.Attempt, run.Losses,
				run.Crashes,
			)
		}
		if late := run.Claimed.Sub(begin); late > 16*time.Second {
			h.t.Errorf("taken back after %s", late)
		}
	})
}

func TestARunThatIsGoingOnIsLeftAlone(t *testing.T) {
	in(t, func(h *house) { h.handle = slow(40 * time.Minute) }, func(h *house) {
		jobs := h.submit(3, after(0))
		time.Sleep(time.Hour)
		h.expectAll(jobs, 1)
		if n := len(h.attempts()); n != 3 {
			h.t.Errorf("%d attempts", n)
		}
	})
}

func TestAWorkerThatJoinsDuringASweepIsNotTakenForDead(t *testing.T) {
	in(t, nil, func(h *house) {
		open := h.nodes[0].store.shut()
		time.Sleep(15 * time.Second) // a sweep has begun
		run := h.unheard(nil)
		h.join("worker_new")
		h.hold("worker_new", []carillon.Run{h.claimFor("worker_new", run)})
		open()
		time.Sleep(time.Second)
		if got := h.runs(run.ID.Job)[0]; got.State != carillon.StateClaimed || got.Losses != 0 {
			h.t.Errorf("%s, %d losses: %s", got.State, got.Losses, got.Reason)
		}
		h.lose("worker_new")
		time.Sleep(time.Second)
		if got := h.runs(run.ID.Job)[0]; got.State != carillon.StateSucceeded || got.Crashes != 1 {
			h.t.Errorf("after its death: %s, %d crashes", got.State, got.Crashes)
		}
	})
}

func TestTheNextInLineBeginsWhenItsTurnComes(t *testing.T) {
	in(t, func(h *house) { h.handle = slow(25 * time.Second) }, func(h *house) {
		job := h.submit(1, every(10*time.Second, carillon.OverlapQueueAll, 4))[0]
		time.Sleep(10 * time.Minute)
		h.expectAll([]carillon.Job{job}, 4)
		seen := h.attempts()
		for i := 1; i < len(seen); i++ {
			if pause := seen[i].start.Sub(seen[i-1].end); pause > 10*time.Millisecond {
				h.t.Errorf("number %d begins %s after the end of the one before", i, pause)
			}
		}
	})
}

func TestRunsThatLoseTheTurnAreLookedAtAgainAtOnce(t *testing.T) {
	in(t, func(h *house) { h.concurrency = 4 }, func(h *house) {
		release := make(chan struct{})
		h.mu.Lock()
		h.handle = func(task executor.Task) {
			if task.Job.Queue == "blocker" {
				<-release
			}
		}
		h.mu.Unlock()
		job := h.submit(1, func(d *carillon.Definition) {
			d.Schedule.Every, d.Overlap = carillon.Duration(24*time.Hour), carillon.OverlapQueueAll
		})[0]
		h.submit(4, func(d *carillon.Definition) { d.Queue = "blocker" }) // all slots are taken
		time.Sleep(time.Second)
		for range 30 {
			if _, err := h.nodes[0].ledger.RunNow(context.Background(), "default", job.ID, nil); err != nil {
				h.t.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		begin := h.clock.Now()
		close(release)
		time.Sleep(5 * time.Minute)
		seen := slices.DeleteFunc(h.attempts(), func(a attempt) bool { return a.run.ID.Job != job.ID })
		if len(seen) != 30 {
			h.t.Fatalf("%d of 30 runs were performed", len(seen))
		}
		if spent := seen[29].end.Sub(begin); spent > time.Second {
			h.t.Errorf("thirty runs that take no time took %s", spent)
		}
	})
}

// slowHeld takes its time for checks of held runs, as a store does in which millions of runs wait.
type slowHeld struct {
	carillon.Store
	scans atomic.Int64
}

func (s *slowHeld) Wakes(ctx context.Context, q carillon.WakeQuery) ([]carillon.Run, error) {
	if q.Held {
		s.scans.Add(1)
		time.Sleep(4500 * time.Millisecond) // checks end between two beats
	}
	return s.Store.Wakes(ctx, q)
}

// asked counts how often a scheduler asks what workers hold.
type asked struct {
	carillon.Coordinator
	times atomic.Int64
}

func (a *asked) Members(
	ctx context.Context, q carillon.MemberQuery,
) ([]carillon.Member, carillon.Time, error) {
	if q.Holds {
		a.times.Add(1)
	}
	return a.Coordinator.Members(ctx, q)
}

func TestRunsThatAreClaimedDuringACheckAreNotSuspected(t *testing.T) {
	var store *slowHeld
	var members *asked
	in(t, func(h *house) {
		store, members = &slowHeld{Store: h.truth}, &asked{Coordinator: h.coordinator}
		h.store, h.members = store, members
		h.handle = func(executor.Task) { time.Sleep(700 * time.Millisecond) }
	}, func(h *house) {
		h.submit(700, after(0)) // all are due now, and one after the other is claimed
		time.Sleep(time.Minute)
		if scans := store.scans.Load(); scans > 2 {
			h.t.Errorf("%d checks of 4.5 s in a minute", scans)
		}
		if times, scans := members.times.Load(), store.scans.Load(); times > scans {
			h.t.Errorf("%d times in %d checks a worker was suspected that lists all its runs", times, scans)
		}
		time.Sleep(10 * time.Second)
	})
}

func TestASuspectIsJudgedWithoutAnotherCheckOfAllRuns(t *testing.T) {
	var store *slowHeld
	in(t, func(h *house) {
		store = &slowHeld{Store: h.truth}
		h.store = store
	}, func(h *house) {
		h.join("worker_x")
		run := h.claimFor("worker_x", h.unheard(nil))
		h.hold("worker_x", nil)
		time.Sleep(30 * time.Second)
		if got := h.runs(run.ID.Job)[0]; got.State != carillon.StateSucceeded || got.Losses != 1 {
			h.t.Errorf("the run that its worker does not know of is %s, %d losses", got.State, got.Losses)
		}
		if scans := store.scans.Load(); scans > 2 { // alone, they would need a third one
			h.t.Errorf("%d checks of all held runs", scans)
		}
	})
}

// hanging is a store that hangs during one check of held runs.
type hanging struct {
	carillon.Store
	once sync.Once
}

func (s *hanging) Wakes(ctx context.Context, q carillon.WakeQuery) ([]carillon.Run, error) {
	if q.Held {
		s.once.Do(func() { time.Sleep(3 * time.Second) })
	}
	return s.Store.Wakes(ctx, q)
}

func TestAStoreThatHangsDuringACheckDoesNotPutOffTheNextOne(t *testing.T) {
	in(t, func(h *house) { h.store = &hanging{Store: h.truth} }, func(h *house) {
		time.Sleep(9 * time.Second) // the first check is over
		begin := h.clock.Now()
		job := h.claimFor(h.nodes[0].worker.ID(), h.unheard(nil)).ID.Job // the answer to the commit was lost
		time.Sleep(time.Minute)
		run := h.runs(job)[0]
		if late := run.Claimed.Sub(begin); run.Attempt != 2 || late > 16*time.Second {
			h.t.Errorf("%s after %d attempts; taken back after %s", run.State, run.Attempt, late)
		}
	})
}

// away is a coordinator that does not say for a while who is alive.
type away struct {
	carillon.Coordinator
	is atomic.Bool
}

func (a *away) Members(
	ctx context.Context, q carillon.MemberQuery,
) ([]carillon.Member, carillon.Time, error) {
	if a.is.Load() {
		return nil, 0, errors.New("no answer")
	}
	return a.Coordinator.Members(ctx, q)
}

// A member that could not beat during an outage needs a moment to try again.
func TestAfterAnOutageOfTheCoordinatorMembersHaveTimeToBeat(t *testing.T) {
	members := &away{}
	in(t, func(h *house) { members.Coordinator, h.members = h.coordinator, members }, func(h *house) {
		ctx := context.Background()
		time.Sleep(2 * carillon.SessionTime) // a node that has just started ends no session
		if err := h.coordinator.Join(ctx, []carillon.Member{
			{ID: "worker_y", Kind: carillon.MemberWorker},
		}); err != nil {
			t.Fatal(err)
		}
		members.is.Store(true)
		time.Sleep(2 * carillon.SessionTime)
		members.is.Store(false)
		time.Sleep(2 * time.Second)
		said, err := h.coordinator.Beat(ctx, []carillon.Beat{{ID: "worker_y"}})
		if err != nil || said[0] != carillon.StandingProlonged {
			t.Errorf("two seconds after the outage: %v, %v", said, err)
		}
		time.Sleep(3 * carillon.SessionTime)
		said, err = h.coordinator.Beat(ctx, []carillon.Beat{{ID: "worker_y"}})
		if err != nil || said[0] != carillon.StandingOver {
			t.Errorf("silent without an outage: %v, %v", said, err)
		}
	})
}
