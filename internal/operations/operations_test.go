package operations_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/adapter/mem"
	"github.com/carillon-run/carillon/internal/idgen"
	"github.com/carillon-run/carillon/internal/ledger"
	"github.com/carillon-run/carillon/internal/operations"
	"github.com/carillon-run/carillon/porttest"
)

// things is a kind that acts on numbers.
type things struct {
	n      int
	find   error                         // of every Find
	do     func(item string) error       // default: it succeeds
	record func(id carillon.OperationID) // called with each action

	mu    sync.Mutex
	acted []string
	at    []time.Time
}

func (k *things) Find(
	_ context.Context, _ *carillon.Operation, cursor string, limit int,
) (items []string, next string, err error) {
	from, _ := strconv.Atoi(cursor)
	for ; from < k.n && len(items) < limit; from++ {
		items = append(items, strconv.Itoa(from))
	}
	if from < k.n {
		next = strconv.Itoa(from)
	}
	return items, next, k.find
}

func (k *things) Do(_ context.Context, op *carillon.Operation, item string) error {
	k.mu.Lock()
	k.acted, k.at = append(k.acted, item), append(k.at, time.Now())
	if k.record != nil {
		k.record(op.ID)
	}
	k.mu.Unlock() // a goroutine in a bubble that sleeps must hold no lock
	if k.do != nil {
		return k.do(item)
	}
	return nil
}

func (k *things) count() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.acted)
}

// house is a store with one ledger, and loops that a test starts and stops.
type house struct {
	*testing.T
	store  carillon.Store
	ledger *ledger.Ledger
	kinds  map[carillon.OperationKind]operations.Kind
}

// in runs a test in a bubble.
func in(t *testing.T, kind operations.Kind, play func(h *house)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := &house{T: t, store: mem.NewStore()}
		if kind != nil {
			h.kinds = map[carillon.OperationKind]operations.Kind{"things": kind, "others": kind}
		}
		h.ledger = ledger.New(ledger.Config{Store: h.store, IDs: idgen.New(1, carillon.Never)})
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		go h.ledger.Run(ctx)
		play(h)
	})
}

// loop starts a loop, and returns how to stop it.
func (h *house) loop(store carillon.Store) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	l := operations.New(operations.Config{
		Store: store, Ledger: h.ledger, Kinds: h.kinds, Logger: slog.New(slog.DiscardHandler),
	})
	done := make(chan struct{})
	go func() { defer close(done); l.Run(ctx) }()
	return func() { cancel(); <-done }
}

func (h *house) start(kind carillon.OperationKind, rate int) carillon.OperationID {
	h.Helper()
	op := carillon.Operation{Namespace: "default", Kind: kind, Rate: rate}
	if err := h.ledger.StartOperation(context.Background(), &op); err != nil {
		h.Fatal(err)
	}
	return op.ID
}

func (h *house) read(id carillon.OperationID) carillon.OperationRecord {
	h.Helper()
	record, err := h.ledger.Operation(context.Background(), "default", id)
	if err != nil {
		h.Fatal(err)
	}
	return record
}

func (h *house) expect(id carillon.OperationID, want string) {
	h.Helper()
	r := h.read(id)
	if got := fmt.Sprintf("%s %d: %d %d %d", r.State, r.Total, r.Done, r.Failed, r.Skipped); got != want {
		h.Errorf("%s, want %s", got, want)
	}
}

func TestAnOperationActsOnEachThingOnceAndEnds(t *testing.T) {
	kind := &things{n: 1234}
	in(t, kind, func(h *house) {
		stop := h.loop(h.store)
		id := h.start("things", 0)
		time.Sleep(time.Minute)
		stop()
		h.expect(id, "done 1234: 1234 0 0")
		slices.Sort(kind.acted)
		if n := len(slices.Compact(kind.acted)); n != 1234 || kind.count() != 1234 {
			t.Errorf("acted on %d things, %d times", n, kind.count())
		}
		guards, err := h.store.Guards(context.Background(), carillon.OpenOperationQuery())
		if err != nil || len(guards) > 0 {
			t.Errorf("open: %v, %v", guards, err)
		}
		time.Sleep(carillon.OperationTime + carillon.GuardGrace)
		if _, err := h.store.Forget(
			context.Background(), carillon.DefaultRetention, carillon.Now(), 100,
		); err != nil {
			t.Fatal(err)
		}
		if _, err := h.ledger.Operation(context.Background(), "default", id); !errors.Is(
			err, carillon.ErrNotFound,
		) {
			t.Errorf("a month later: %v", err)
		}
	})
}

func TestAnOperationKeepsItsRate(t *testing.T) {
	for _, rate := range []int{1, 3, 50, 1000} {
		t.Run(fmt.Sprint(rate), func(t *testing.T) {
			kind := &things{n: 10 * rate}
			in(t, kind, func(h *house) {
				defer h.loop(h.store)()
				id := h.start("things", rate)
				time.Sleep(5 * time.Second)
				half := h.read(id)
				if half.State != carillon.OperationRunning || half.Done < 3*rate || half.Done > 5*rate+rate {
					t.Errorf("after 5 seconds %s with %d of %d done", half.State, half.Done, half.Total)
				}
				time.Sleep(10 * time.Second)
				h.expect(id, fmt.Sprintf("done %d: %d 0 0", 10*rate, 10*rate))
				for i := range kind.at { // in no second more than the rate, and what one turn may bring
					most := rate + max(rate/4, 1)
					if k := i + most; k < len(kind.at) && kind.at[k].Sub(kind.at[i]) < time.Second {
						t.Fatalf("%d things within %s", most+1, kind.at[k].Sub(kind.at[i]))
					}
				}
			})
		})
	}
}

func TestACanceledOperationStopsWithinASecondAndCountsWhatItDid(t *testing.T) {
	for _, rate := range []int{0, 1, 100} {
		kind := &things{n: 100_000, do: func(string) error { time.Sleep(10 * time.Millisecond); return nil }}
		in(t, kind, func(h *house) {
			defer h.loop(h.store)()
			op := carillon.Operation{Namespace: "default", ID: h.start("things", rate)}
			time.Sleep(5*time.Second + 100*time.Millisecond)
			if err := h.ledger.CancelOperation(context.Background(), &op); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			done := kind.count()
			time.Sleep(time.Minute)
			if kind.count() != done || done == 0 {
				t.Errorf("rate %d: %d actions after a second, then %d", rate, done, kind.count())
			}
			h.expect(op.ID, fmt.Sprintf("canceled 100000: %d 0 0", done))
			if err := h.ledger.CancelOperation(context.Background(), &op); err != nil {
				t.Errorf("once more: %v", err)
			}
		})
	}
}

func TestOperationsShareTheLoop(t *testing.T) {
	counts := map[carillon.OperationID]int{}
	kind := &things{n: 1_000_000, do: func(string) error { time.Sleep(time.Millisecond); return nil }}
	kind.record = func(id carillon.OperationID) { counts[id]++ }
	in(t, kind, func(h *house) {
		stop := h.loop(h.store)
		for range 4 {
			h.start("things", 0)
		}
		time.Sleep(time.Minute)
		stop()
		for id, n := range counts {
			if share := kind.count() / 4; n < share/2 || n > share*2 {
				t.Errorf("%s got %d of %d", id, n, kind.count())
			}
		}
		if len(counts) != 4 {
			t.Errorf("%d operations got a turn", len(counts))
		}
	})
}

func TestAnOperationGoesOnAfterAnOutage(t *testing.T) {
	kind := &things{n: 500}
	in(t, kind, func(h *house) {
		down := porttest.Failing(h.store, "Guards")
		stop := h.loop(down)
		id := h.start("things", 0)
		time.Sleep(time.Hour)
		h.expect(id, "counting 0: 0 0 0")
		stop()
		back := time.Now().Add(20 * time.Second)
		kind.do = func(string) error {
			if time.Now().Before(back) {
				return errors.New("the store is away")
			}
			return nil
		}
		defer h.loop(h.store)()
		time.Sleep(time.Minute)
		h.expect(id, "done 500: 500 0 0")
	})
}

func TestResultsAreCounted(t *testing.T) {
	kind := &things{n: 100, do: func(item string) error {
		switch n, _ := strconv.Atoi(item); {
		case n%10 == 0:
			return fmt.Errorf("%w: it is locked", carillon.ErrConflict)
		case n%10 == 1:
			return operations.ErrSkipped
		case n == 55:
			return errors.New("never works")
		}
		return nil
	}}
	in(t, kind, func(h *house) {
		defer h.loop(h.store)()
		id := h.start("things", 0)
		time.Sleep(5 * time.Minute)
		h.expect(id, "done 100: 79 11 10")
		errs := h.read(id).Errors
		want := carillon.OperationError{Item: "0", Reason: "it is locked"}
		if len(errs) != 11 || errs[0] != want || errs[10].Reason != "never works" {
			t.Errorf("errors: %v", errs)
		}
	})
}

func TestAnOperationFailsIfItsThingsCannotBeFound(t *testing.T) {
	kind := &things{n: 100, find: fmt.Errorf("%w: gate g1", carillon.ErrNotFound)}
	in(t, kind, func(h *house) {
		defer h.loop(h.store)()
		id := h.start("things", 0)
		time.Sleep(time.Minute)
		h.expect(id, "failed 0: 0 0 0")
		if reason := h.read(id).Reason; reason != "not found: gate g1" {
			t.Errorf("reason %q", reason)
		}
	})
}

func TestAnUnknownKindIsLeftToOtherNodes(t *testing.T) {
	kind := &things{n: 10}
	in(t, kind, func(h *house) {
		stop := h.loop(h.store)
		id := h.start("of a later version", 0)
		other := h.start("things", 0)
		time.Sleep(time.Minute)
		h.expect(id, "counting 0: 0 0 0")
		h.expect(other, "done 10: 10 0 0")
		stop()
		h.kinds["of a later version"] = kind
		defer h.loop(h.store)()
		time.Sleep(time.Minute)
		h.expect(id, "done 10: 10 0 0")
	})
}
