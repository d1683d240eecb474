package chaos

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/chaos/check"
)

func TestTheRegisterRefusesAFenceBelowTheHighestOfItsKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "register")
	r, err := OpenRegister(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	c := newRegisterClient(path)
	run := carillon.RunID{Job: 1, Due: 10}
	for _, w := range []struct {
		key, fence int64
		want       error
	}{{1, 5, nil}, {1, 5, nil}, {1, 7, nil}, {1, 5, errRefused}, {2, 5, nil}, {1, 7, nil}} {
		line := check.Line{Run: run, Attempt: 3, Fence: w.fence}
		if err := c.write(t.Context(), w.key, line); !errors.Is(err, w.want) {
			t.Errorf("fence %d of key %d: %v, want %v", w.fence, w.key, err, w.want)
		}
	}
	var accepted []bool
	for _, w := range r.Writes() {
		accepted = append(accepted, w.Accepted)
		if w.Run != run || w.Attempt != 3 || w.Mono == 0 {
			t.Errorf("logged %+v, want run, attempt and time", w)
		}
	}
	if want := []bool{true, true, true, false, true, true}; !slices.Equal(accepted, want) {
		t.Errorf("accepted %v, want %v", accepted, want)
	}
}

func TestABodyThatCannotReachTheRegisterGoesOnUnlessItMustStop(t *testing.T) {
	c := newRegisterClient(filepath.Join(t.TempDir(), "none"))
	if err := c.write(t.Context(), 1, check.Line{}); err != nil {
		t.Errorf("without a register: %v", err)
	}
	if err := newRegisterClient("").write(t.Context(), 1, check.Line{}); err != nil {
		t.Errorf("in a test without a register: %v", err)
	}
}

func TestTwoBodiesOfOneProcessCannotHaveTheSameLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "locks")
	const key = 1<<62 + 1
	take := func(key int64, wantBusy bool) (unlock func()) {
		t.Helper()
		unlock, busy, err := lock(path, key)
		if err != nil || busy != wantBusy {
			t.Fatalf("busy %t, %v; want busy %t", busy, err, wantBusy)
		}
		return unlock
	}
	first := take(key, false)
	second := take(key, true)
	defer take(key+1, false)()
	second() // the body that found it busy ends; the lock stays with the first
	take(key, true)()
	first()
	take(key, false)()
}

func TestAStoppedBodyDoesNotWaitForTheRegister(t *testing.T) {
	path := filepath.Join(t.TempDir(), "register")
	r, err := OpenRegister(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	stopped := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(t.Context())
	c := newRegisterClient(path)
	r.mu.Lock() // it does not answer
	defer r.mu.Unlock()
	cancel(stopped)
	err = c.write(ctx, 1, check.Line{Run: carillon.RunID{Job: 1, Due: 1}})
	if err != nil && !errors.Is(err, stopped) {
		t.Errorf("a write of a body that must stop: %v", err)
	}
}
