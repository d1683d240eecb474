package worker_test

import (
	"testing"
	"time"

	"github.com/carillon-run/carillon"
)

func TestAttemptsThatTakeLongHoldUpNobody(t *testing.T) {
	const slots = 1000 // more than stay idle
	in(t, func(h *house) { h.concurrency, h.handle = slots, slow(time.Minute) }, func(h *house) {
		for wave := range 3 { // the first starts new goroutines, the others reuse idle ones and start more
			began := carillon.Now()
			h.submit(slots, nil)
			time.Sleep(10 * time.Second)
			list := h.attempts()
			if len(list) != slots*(wave+1) {
				t.Fatalf("wave %d: %d attempts have begun, want %d", wave, len(list), slots*(wave+1))
			}
			for _, a := range list[slots*wave:] {
				if late := a.start.Sub(began); late > 100*time.Millisecond {
					t.Fatalf("wave %d: an attempt began %s late", wave, late)
				}
			}
			time.Sleep(2 * time.Minute)
		}
		h.mu.Lock()
		most := h.most
		h.mu.Unlock()
		if most != slots {
			t.Errorf("%d at once, want %d", most, slots)
		}
		h.expectSlots()
	})
}
