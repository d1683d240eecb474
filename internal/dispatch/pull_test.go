package dispatch_test

import (
	"testing"
	"time"

	"github.com/carillon-run/carillon"
)

// The largest payloads make a pull hand back a part of the runs that it took: one answer carries 64 of them.
func TestRunsThatAPullHandsBackToAFullLaneAreOfferedAgainWithoutASweep(t *testing.T) {
	in(t, 1, func(h *house) {
		n := h.nodes[0]
		worker, payload := h.register(n), append(append([]byte{'"'}, make([]byte, 256<<10-2)...), '"')
		for i := range payload[1 : len(payload)-1] {
			payload[i+1] = 'x'
		}
		due := h.clock.Now().Add(time.Second)
		for range 192 {
			h.submit(n, func(d *carillon.Definition) { d.Schedule.At, d.Payload = due, payload })
		}
		time.Sleep(2 * time.Second)
		if got := len(h.pull(n, worker, 1000)); got != 64 { // the next claim is twice as large
			t.Fatalf("the first pull got %d runs", got)
		}
		h.lanes.full.Store(true)
		if got := len(h.pull(n, worker, 1000)); got != 64 {
			t.Fatalf("the second pull got %d runs", got)
		}
		h.lanes.full.Store(false)
		got, since := 0, time.Now()
		for time.Since(since) < time.Second && got < 64 { // sweeps come every ten seconds
			got += len(h.pull(n, worker, 1000))
		}
		if got != 64 {
			t.Errorf("%d of the 64 runs that were handed back come again", got)
		}
	})
}
