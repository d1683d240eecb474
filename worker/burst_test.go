//go:build !race

// Bursts are so large that the race detector, which would make them ten times as slow, only watches the other
// tests of the package.

package worker_test

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/executor"
)

// burst watches the runs that have ended and are not recorded: a kill -9 would repeat them.
type burst struct {
	fixed, each time.Duration // what a commit takes, and what each of its changes adds to that

	payload []byte // of each job
	remote  bool   // the worker is on another machine

	mu         sync.Mutex
	unrecorded map[carillon.RunID]time.Time // when they ended
	payloads   int                          // bytes of the unrecorded runs
	recorded   int
	most       int           // unrecorded at once
	mostBytes  int           // of their payloads
	longest    time.Duration // from an end to the beginning of the commit that records it
}

// perform is a handler that ends at once.
func (b *burst) perform(_ context.Context, task executor.Task) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.unrecorded[task.Run.ID] = time.Now()
	b.payloads += len(b.payload)
	b.most, b.mostBytes = max(b.most, len(b.unrecorded)), max(b.mostBytes, b.payloads)
	return nil
}

// around makes a commit take as long as on a disk, and notes the ends that it records.
func (b *burst) around(changes []carillon.Change) (after func()) {
	begin := time.Now()
	time.Sleep(b.fixed + time.Duration(len(changes))*b.each)
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, c := range changes {
			if c.Runs[0].State != carillon.StateSucceeded {
				continue
			}
			b.longest = max(b.longest, begin.Sub(b.unrecorded[c.Runs[0].ID]))
			b.payloads -= len(b.payload)
			b.recorded++
			delete(b.unrecorded, c.Runs[0].ID)
		}
	}
}

// play has many runs due at one instant, and waits until they are recorded.
func (b *burst) play(t *testing.T, slots, runs int) {
	t.Helper()
	b.unrecorded = map[carillon.RunID]time.Time{}
	in(t, func(h *house) {
		h.concurrency, h.handle, h.store.around = slots, b.perform, b.around
		if b.remote {
			h.between = &wire{}
		}
	}, func(h *house) {
		due := carillon.Now().Add(time.Minute)
		for left := runs; left > 0; left -= 1000 {
			h.submit(min(left, 1000), func(d *carillon.Definition) {
				d.Schedule.At, d.Payload = due, b.payload
			})
		}
		time.Sleep(5 * time.Minute)
	})
	if b.recorded != runs {
		t.Errorf("%d ends are recorded, want %d", b.recorded, runs)
	}
}

func TestInABurstEndsAreRecordedSoon(t *testing.T) {
	for _, c := range []struct {
		slots, runs int
		remote      bool
	}{
		{slots: 64, runs: 5_000},
		{slots: 4000, runs: 13_000},
		{slots: 100_000, runs: 13_000},
		{slots: 4000, runs: 12_000, remote: true},
	} {
		t.Run(fmt.Sprintf("%d slots, remote %t", c.slots, c.remote), func(t *testing.T) {
			b := &burst{fixed: 2 * time.Millisecond, each: 7 * time.Microsecond, remote: c.remote}
			b.play(t, c.slots, c.runs)
			if b.most > 10_000 || b.longest > 100*time.Millisecond {
				t.Errorf("up to %d ends were unrecorded, up to %s long", b.most, b.longest)
			}
		})
	}
}

func TestOnASlowStoreEndsTakeNoMoreThanTheirBound(t *testing.T) {
	b := &burst{fixed: time.Second}
	b.play(t, 4000, 13_000)
	if b.most > 10_000 {
		t.Errorf("up to %d ends were unrecorded", b.most)
	}
}

func TestEndsWithLargePayloadsAreBoundedInBytes(t *testing.T) {
	b := &burst{fixed: 20 * time.Millisecond, payload: bytes.Repeat([]byte("1"), 64<<10)}
	b.play(t, 4000, 2000)
	// Four pulls may bring 16 MiB each after the bound was reached.
	if most := (24 + 4*16) << 20; b.mostBytes > most {
		t.Errorf("up to %d bytes of payloads were unrecorded, want at most %d", b.mostBytes, most)
	}
}
