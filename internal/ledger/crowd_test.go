package ledger_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/ledger"
)

// claims is how many of the runs were written claimed.
func claims(committed []carillon.Change) (n int) {
	for i := range committed {
		if len(committed[i].Runs) > 0 && committed[i].Runs[0].State == carillon.StateClaimed {
			n++
		}
	}
	return n
}

// crowd lets many jobs be submitted while a commit hangs. It returns the sizes of the commits, and how many
// runs were written claimed.
func crowd(t *testing.T, n int, have *slots, meanwhile func()) (sizes []int, claimed int) {
	t.Helper()
	s := newStore()
	withSlots(t, ledger.Config{Store: s, MaxBatch: 64}, have, func(t *testing.T, l *ledger.Ledger) {
		s.set(func(s *store) { s.gate = make(chan struct{}) })
		var callers sync.WaitGroup
		for range n {
			callers.Go(func() { submit(t, l, nil) })
			synctest.Wait()
		}
		meanwhile()
		sizes = nil
		close(s.gate)
		callers.Wait()
	}, func(committed []carillon.Change) {
		sizes = append(sizes, len(committed))
		claimed += claims(committed)
	})
	return sizes, claimed
}

func TestAJobThatWaitedForItsCommitGetsASlotThatBecameFree(t *testing.T) {
	have := &slots{}
	_, claimed := crowd(t, 40, have, func() { have.Release(make([]carillon.RunID, 30)) })
	if claimed != 30 || have.free != 0 {
		t.Errorf("%d of 30 slots that became free got a run; %d are free", claimed, have.free)
	}
}

func TestAFailedSubmitGivesBackASlotThatItGotLate(t *testing.T) {
	s, have := newStore(), &slots{}
	outage := errors.New("the disk is away")
	withSlots(t, ledger.Config{Store: s}, have, func(t *testing.T, l *ledger.Ledger) {
		s.set(func(s *store) { s.gate = make(chan struct{}) })
		var callers sync.WaitGroup
		for i := range 5 {
			callers.Go(func() {
				_, err := l.Submit(t.Context(), "default", []carillon.Definition{define(t, nil)})
				if i > 0 && !errors.Is(err, outage) { // the commit of the first one is under way
					t.Errorf("%v, want %v", err, outage)
				}
			})
			synctest.Wait()
		}
		have.Release(make([]carillon.RunID, 3))
		s.set(func(s *store) { s.fail = outage })
		close(s.gate)
		callers.Wait()
	})
	if have.free != 3 {
		t.Errorf("%d slots are free, want 3", have.free)
	}
}

func TestACrowdOfSubmitsWaitsForTheSlotsThatAreComing(t *testing.T) {
	later := func(d *carillon.Definition) { d.Schedule.After = carillon.Duration(time.Hour) }
	for name, c := range map[string]struct {
		coming  int
		crowd   int
		edit    func(*carillon.Definition)
		after   time.Duration // slots become free
		claimed int
		took    time.Duration
	}{
		"slots are coming":             {100, 40, nil, 20 * time.Millisecond, 40, 20 * time.Millisecond},
		"they are not free in time":    {100, 40, nil, time.Minute, 0, 250 * time.Millisecond},
		"nor are they for many":        {100, 500, nil, time.Minute, 0, 250 * time.Millisecond},
		"only a few are coming":        {4, 40, nil, time.Minute, 0, 0},
		"it is no crowd":               {100, 5, nil, time.Minute, 0, 0}, // one is under way
		"jobs that are not due":        {100, 40, later, time.Minute, 0, 0},
		"slots are free, fewer coming": {0, 40, nil, 0, 40, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s, have := newStore(), &slots{coming: c.coming}
			claimed := 0
			withSlots(t, ledger.Config{Store: s, MaxBatch: 64}, have, func(t *testing.T, l *ledger.Ledger) {
				s.set(func(s *store) { s.gate = make(chan struct{}) })
				var callers sync.WaitGroup
				for range c.crowd {
					callers.Go(func() { submit(t, l, c.edit) })
					synctest.Wait()
				}
				free := func() { have.Release(make([]carillon.RunID, c.crowd)) }
				begin := time.Now()
				if c.after == 0 {
					free()
				} else {
					time.AfterFunc(c.after, free)
				}
				close(s.gate)
				callers.Wait()
				if took := time.Since(begin); took < c.took || took > c.took+10*time.Millisecond {
					t.Errorf("the crowd waited %s, want about %s", took, c.took)
				}
			}, func(committed []carillon.Change) { claimed += claims(committed) })
			if claimed < c.claimed-1 || claimed > c.claimed { // the commit of the first one was under way
				t.Errorf("%d runs were written claimed, want %d", claimed, c.claimed)
			}
		})
	}
}

func TestALongCommitDoesNotEndTheWaitOfACrowd(t *testing.T) {
	s, have := newStore(), &slots{coming: 100}
	claimed := 0
	withSlots(t, ledger.Config{Store: s, MaxBatch: 64}, have, func(t *testing.T, l *ledger.Ledger) {
		s.set(func(s *store) { s.gate = make(chan struct{}) })
		var callers sync.WaitGroup
		for range 40 {
			callers.Go(func() { submit(t, l, nil) })
			synctest.Wait()
		}
		close(s.gate) // the others are held back now
		synctest.Wait()
		s.set(func(s *store) { s.gate = make(chan struct{}) })
		callers.Go(func() { _, _ = l.Commit(t.Context(), []carillon.Change{{}}) })
		synctest.Wait()
		time.Sleep(400 * time.Millisecond)
		close(s.gate)
		time.AfterFunc(10*time.Millisecond, func() { have.Release(make([]carillon.RunID, 40)) })
		callers.Wait()
	}, func(committed []carillon.Change) { claimed += claims(committed) })
	if claimed != 39 { // the commit of the first one was under way
		t.Errorf("%d runs were written claimed, want 39", claimed)
	}
}

func TestACrowdOfJobsForLaterKeepsNoSlotFromAJobForNow(t *testing.T) {
	s, have := newStore(), &slots{coming: 100}
	var order []carillon.State
	withSlots(t, ledger.Config{Store: s, MaxBatch: 64}, have, func(t *testing.T, l *ledger.Ledger) {
		s.set(func(s *store) { s.gate = make(chan struct{}) })
		var callers sync.WaitGroup
		for range 40 {
			callers.Go(func() {
				submit(t, l, func(d *carillon.Definition) { d.Schedule.After = carillon.Duration(time.Hour) })
			})
			synctest.Wait()
		}
		have.Release(make([]carillon.RunID, 1))
		callers.Go(func() { submit(t, l, nil) })
		synctest.Wait()
		close(s.gate)
		callers.Wait()
	}, func(committed []carillon.Change) {
		for i := range committed {
			order = append(order, committed[i].Runs[0].State)
		}
	})
	if at := slices.Index(order, carillon.StateClaimed); at != 1 { // one commit was under way
		t.Errorf("the job for now is written as number %d, claimed: %v", at, order)
	}
}

func TestWhileDueRunsWaitFewJobsAreTaken(t *testing.T) {
	have := &slots{starting: true}
	sizes, _ := crowd(t, 40, have, func() {})
	// The first commit was under way. Without starts one place of the room is for submits.
	if most := slices.Max(sizes[1:]); most != 1 {
		t.Errorf("commits of %v submits while due runs wait, want %d at a time", sizes[1:], 1)
	}
}

func TestACrowdIsHeldBackAlsoBehindJobsThatDoNotWaitForSlots(t *testing.T) {
	for name, edit := range map[string]func(*carillon.Definition){
		"for later":       func(d *carillon.Definition) { d.Schedule.After = carillon.Duration(time.Hour) },
		"without workers": func(d *carillon.Definition) { d.Queue = "other" },
	} {
		t.Run(name, func(t *testing.T) {
			s, have := newStore(), &slots{coming: 100}
			claimed := 0
			withSlots(t, ledger.Config{Store: s, MaxBatch: 64}, have, func(t *testing.T, l *ledger.Ledger) {
				s.set(func(s *store) { s.gate = make(chan struct{}) })
				var first, crowd sync.WaitGroup
				for range 5 {
					first.Go(func() { submit(t, l, edit) })
					synctest.Wait()
				}
				for range 40 {
					crowd.Go(func() { submit(t, l, nil) })
					synctest.Wait()
				}
				close(s.gate)
				begin := time.Now()
				first.Wait()
				if took := time.Since(begin); took > 0 {
					t.Errorf("jobs that need no slot waited %s", took)
				}
				time.Sleep(20 * time.Millisecond)
				have.Release(make([]carillon.RunID, 40))
				crowd.Wait()
			}, func(committed []carillon.Change) { claimed += claims(committed) })
			if claimed != 40 {
				t.Errorf("%d runs were written claimed, want 40", claimed)
			}
		})
	}
}

func TestACrowdWaitsNotMuchLongerThanASecondHoweverSlowCommitsAre(t *testing.T) {
	s, have := newStore(), &slots{coming: 100}
	withSlots(t, ledger.Config{Store: s, MaxBatch: 64}, have, func(t *testing.T, l *ledger.Ledger) {
		s.set(func(s *store) { s.slow = 400 * time.Millisecond })
		var callers sync.WaitGroup
		begin := time.Now()
		for range 40 {
			callers.Go(func() { submit(t, l, nil) })
			synctest.Wait()
		}
		other, stop := context.WithCancel(t.Context())
		var others sync.WaitGroup
		others.Go(func() {
			for other.Err() == nil {
				_, _ = l.Commit(other, []carillon.Change{{}})
			}
		})
		callers.Wait()
		stop()
		others.Wait()
		// The commit of the first job, a second, the commit during which it ends, the commit of the crowd.
		if took := time.Since(begin); took < time.Second || took > 2300*time.Millisecond {
			t.Errorf("the crowd waited %s", took)
		}
	})
}

// hesitant slots take their time to give one.
type hesitant struct {
	*slots
	gate chan struct{}
}

func (h *hesitant) Reserve(run *carillon.Run, job *carillon.Job, now carillon.Time) (string, bool) {
	if slots, _ := h.Free(run); slots > 0 {
		<-h.gate
	}
	return h.slots.Reserve(run, job, now)
}

func TestTwoFlushersDoNotCountOnTheSameSlots(t *testing.T) {
	s, have := newStore(), &slots{coming: 100}
	late := &hesitant{slots: have}
	claimed := 0
	cfg := ledger.Config{Store: s, MaxBatch: 64, Flushers: 2}
	withSlots(t, cfg, late, func(t *testing.T, l *ledger.Ledger) {
		late.gate = make(chan struct{})
		s.set(func(s *store) { s.gate = make(chan struct{}) })
		var callers sync.WaitGroup
		for range 84 {
			callers.Go(func() { submit(t, l, nil) })
			synctest.Wait()
		}
		have.Release(make([]carillon.RunID, 40))
		close(s.gate)
		time.Sleep(20 * time.Millisecond) // a flusher waits for its slots, another one looks
		close(late.gate)
		time.Sleep(20 * time.Millisecond)
		have.Release(make([]carillon.RunID, 44))
		callers.Wait()
	}, func(committed []carillon.Change) { claimed += claims(committed) })
	if claimed < 80 {
		t.Errorf("%d of 84 runs were written claimed, want all that waited", claimed)
	}
}

func TestACrowdGoesAtOnceWhenItIsToldOfFreeSlots(t *testing.T) {
	s, have := newStore(), &slots{coming: 100}
	withSlots(t, ledger.Config{Store: s, MaxBatch: 64}, have, func(t *testing.T, l *ledger.Ledger) {
		s.set(func(s *store) { s.gate = make(chan struct{}) })
		var callers sync.WaitGroup
		for range 40 {
			callers.Go(func() { submit(t, l, nil) })
			synctest.Wait()
		}
		close(s.gate)
		time.Sleep(11 * time.Millisecond) // the ledger looks every 5 ms
		have.Release(make([]carillon.RunID, 40))
		begin := time.Now()
		l.SlotsFree()
		callers.Wait()
		if took := time.Since(begin); took > 0 {
			t.Errorf("it went %s later", took)
		}
	})
}
