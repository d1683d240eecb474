package ledger_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/ledger"
	"github.com/carillon-run/carillon/porttest"
)

// request is a context with an idempotency key, for a request with this hash.
func request(t *testing.T, key, hash string) context.Context {
	t.Helper()
	once, err := carillon.NewOnce("key", key)
	if err != nil {
		t.Fatal(err)
	}
	once.Request, once.At = hash, carillon.Now()
	once.Answer = func(job *carillon.Job, run *carillon.Run) (json.RawMessage, error) {
		return json.Marshal([]string{job.State.String(), run.ID.String()})
	}
	return once.Context(t.Context())
}

// repeated is what the key of a request was used for; nil if the error says something else.
func repeated(err error) *carillon.Use {
	var r *carillon.RepeatedError
	if errors.As(err, &r) {
		return &r.Use
	}
	return nil
}

func reused(err error) bool {
	var r *carillon.KeyReusedError
	return errors.As(err, &r)
}

// jobs counts the jobs of the namespace.
func jobs(t *testing.T, s carillon.Store) int {
	t.Helper()
	page, err := s.FindJobs(t.Context(), carillon.JobQuery{Namespace: "default", Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	return len(page.Jobs)
}

func TestASubmitWithAKeyIsPerformedOnce(t *testing.T) {
	s, free := newStore(), &slots{free: 10}
	withSlots(t, ledger.Config{Store: s}, free, func(t *testing.T, l *ledger.Ledger) {
		defs := []carillon.Definition{define(t, nil), define(t, nil), define(t, nil)}
		first, err := l.Submit(request(t, "k", "r"), "default", defs)
		if err != nil || len(first) != 3 {
			t.Fatal(first, err)
		}
		if commits := len(s.sizes()); commits != 1 {
			t.Errorf("%d commits", commits)
		}
		_, err = l.Submit(request(t, "k", "r"), "default", defs)
		use := repeated(err)
		if use == nil || len(use.Jobs) != 3 || use.Jobs[2] != first[2].ID || use.At != first[0].Created {
			t.Errorf("the same request: %v", err)
		}
		if _, err = l.Submit(request(t, "k", "other"), "default", defs); !reused(err) {
			t.Errorf("another request: %v", err)
		}
		if n := jobs(t, s); n != 3 || free.free != 7 {
			t.Errorf("%d jobs, %d slots are free", n, free.free)
		}
		if _, err = l.Submit(request(t, "k", "other"), "elsewhere", defs); err != nil {
			t.Errorf("another namespace: %v", err)
		}
	})
}

func TestOfManySubmitsWithOneKeyOneIsPerformed(t *testing.T) {
	for name, n := range map[string]int{"one job": 1, "a batch": 3} {
		t.Run(name, func(t *testing.T) {
			s := newStore()
			within(t, ledger.Config{Store: s, Flushers: 2}, func(t *testing.T, l *ledger.Ledger) {
				ids := make([]carillon.JobID, 64)
				var callers sync.WaitGroup
				for i := range ids {
					ctx := request(t, "k", "r")
					defs := make([]carillon.Definition, n)
					for k := range defs {
						defs[k] = define(t, nil)
					}
					callers.Go(func() {
						jobs, err := l.Submit(ctx, "default", defs)
						if use := repeated(err); use != nil {
							ids[i] = use.Jobs[0]
						} else if err == nil {
							ids[i] = jobs[0].ID
						}
					})
				}
				callers.Wait()
				for _, id := range ids {
					if id == 0 || id != ids[0] {
						t.Fatalf("callers heard of %s and %s", id, ids[0])
					}
				}
				if got := jobs(t, s); got != n {
					t.Errorf("%d jobs, want %d", got, n)
				}
			})
		})
	}
}

func TestAKeyCanBeUsedAgainAfterADay(t *testing.T) {
	s := newStore()
	within(t, ledger.Config{Store: s}, func(t *testing.T, l *ledger.Ledger) {
		defs := []carillon.Definition{define(t, func(d *carillon.Definition) {
			d.Schedule.After = carillon.Duration(9 * 24 * time.Hour)
		})}
		submitted := func(hash string) error {
			_, err := l.Submit(request(t, "k", hash), "default", defs)
			return err
		}
		for _, c := range []struct {
			after  time.Duration
			forget bool
			hash   string
			reused bool
		}{
			{0, false, "first", false},
			{24*time.Hour - time.Second, false, "second", true},
			{time.Second, false, "second", false}, // its guard is still there
			{time.Hour, false, "third", true},
			{25 * time.Hour, true, "third", false}, // its guard is gone
		} {
			time.Sleep(c.after)
			if c.forget {
				n, err := s.Forget(t.Context(), carillon.Retention{}, carillon.Now(), 10)
				if n != 1 || err != nil {
					t.Errorf("forgot %d, %v", n, err)
				}
			}
			if err := submitted(c.hash); reused(err) != c.reused || !c.reused && err != nil {
				t.Errorf("%s: %v", c.hash, err)
			}
		}
		if n := jobs(t, s); n != 3 {
			t.Errorf("%d jobs", n)
		}
	})
}

// After an error the caller sends the request again, whatever has become of the first one.
func TestASubmitWhoseAnswerIsLostIsSentAgain(t *testing.T) {
	for name, faulty := range map[string]func(carillon.Store) *porttest.Faulty{
		"refused":       func(s carillon.Store) *porttest.Faulty { return porttest.Failing(s, "Commit", 1) },
		"answer lost":   func(s carillon.Store) *porttest.Faulty { return porttest.Unknown(s, "Commit", 1) },
		"read fails":    func(s carillon.Store) *porttest.Faulty { return porttest.Failing(s, "Guards", 1) },
		"repeat fails":  func(s carillon.Store) *porttest.Faulty { return porttest.Failing(s, "Commit", 1, 2) },
		"both are lost": func(s carillon.Store) *porttest.Faulty { return porttest.Unknown(s, "Commit", 1, 2) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore()
			within(t, ledger.Config{Store: faulty(s)}, func(t *testing.T, l *ledger.Ledger) {
				defs := []carillon.Definition{define(t, nil), define(t, nil)}
				var id carillon.JobID
				for range 4 {
					got, err := l.Submit(request(t, "k", "r"), "default", defs)
					now := carillon.JobID(0)
					if use := repeated(err); use != nil {
						now = use.Jobs[1]
					} else if err == nil {
						now = got[1].ID
					}
					if id != 0 && now != 0 && now != id {
						t.Errorf("%s, then %s", id, now)
					}
					id = max(id, now)
				}
				if n := jobs(t, s); n != 2 || id == 0 {
					t.Errorf("%d jobs, heard of %s", n, id)
				}
			})
		})
	}
}

func TestACommandWithAKeyIsPerformedOnceAndItsAnswerIsKept(t *testing.T) {
	s := newStore()
	within(t, ledger.Config{Store: s}, func(t *testing.T, l *ledger.Ledger) {
		job := submit(t, l, every(time.Hour, carillon.OverlapAllow))
		run, err := l.RunNow(request(t, "now", "r"), "default", job.ID, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = l.RunNow(request(t, "now", "r"), "default", job.ID, nil)
		want := `["active","` + run.ID.String() + `"]`
		if use := repeated(err); use == nil || string(use.Answer) != want {
			t.Errorf("the same request: %v, want %s", err, want)
		}
		if _, err = l.RunNow(request(t, "now", "other"), "default", job.ID, nil); !reused(err) {
			t.Errorf("another request: %v", err)
		}
		if n := len(unfinished(t, s, job.ID)); n != 2 { // by the clock, and this one
			t.Errorf("%d runs", n)
		}
		// A request that was refused is not remembered.
		ctx := request(t, "pause", "r")
		if _, err := l.ResumeJob(ctx, "default", job.ID); !errors.Is(err, carillon.ErrConflict) {
			t.Errorf("resumed: %v", err)
		}
		if err := l.Used(ctx, "default"); err != nil {
			t.Errorf("a refused request is remembered: %v", err)
		}
		if _, err := l.PauseJob(ctx, "default", job.ID); err != nil {
			t.Error(err)
		}
		if use := repeated(l.Used(ctx, "default")); use == nil || !strings.HasPrefix(string(use.Answer), `["paused"`) {
			t.Errorf("the pause: %v", use)
		}
	})
}

// guardless counts reads of guards.
type guardless struct {
	carillon.Store
	reads atomic.Int32
}

func (s *guardless) Guards(ctx context.Context, q carillon.GuardQuery) ([]carillon.Guard, error) {
	s.reads.Add(1)
	return s.Store.Guards(ctx, q)
}

func TestASubmitReadsNoGuardAndWritesOneOnlyWithAKey(t *testing.T) {
	s := &guardless{Store: newStore()}
	within(t, ledger.Config{Store: s}, func(t *testing.T, l *ledger.Ledger) {
		submit(t, l, nil)
		submit(t, l, nil)
		guards, err := s.Store.Guards(t.Context(), carillon.GuardQuery{Namespace: "default"})
		if err != nil || len(guards) != 0 {
			t.Errorf("%v %v", guards, err)
		}
		if _, err := l.Submit(request(t, "k", "r"), "default", []carillon.Definition{define(t, nil)}); err != nil {
			t.Fatal(err)
		}
		if n := s.reads.Load(); n > 0 {
			t.Errorf("%d reads of guards", n)
		}
	})
}

// Forget removes a guard an hour after it has expired, and a new one has the same revision. So a guard that
// is about to be removed is not taken.
func TestAGuardThatForgetCanRemoveIsNotTaken(t *testing.T) {
	s := newStore()
	within(t, ledger.Config{Store: s}, func(t *testing.T, l *ledger.Ledger) {
		use := func() error {
			_, err := l.Submit(request(t, "k", "r"), "default", []carillon.Definition{define(t, nil)})
			return err
		}
		if err := use(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(carillon.IdempotencyTime + carillon.GuardGrace/2)
		if err := use(); err == nil || repeated(err) != nil || errors.Is(err, carillon.ErrInvalid) {
			t.Fatalf("half an hour after it expired: %v", err)
		}
		time.Sleep(carillon.GuardGrace)
		if _, err := s.Forget(t.Context(), carillon.Retention{}, carillon.Now(), 100); err != nil {
			t.Fatal(err)
		}
		if err := use(); err != nil {
			t.Errorf("after it was removed: %v", err)
		}
	})
}
