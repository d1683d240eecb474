package dispatch_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/worker/protocol"
)

// countedReads counts how often a dispatcher reads runs.
type countedReads struct {
	carillon.Store
	runs atomic.Int64
}

func (s *countedReads) Runs(
	ctx context.Context, ids []carillon.RunID, whole bool,
) ([]carillon.Run, error) {
	s.runs.Add(1)
	return s.Store.Runs(ctx, ids, whole)
}

func (h *house) guardRev(job carillon.JobID) int32 {
	h.Helper()
	guards, err := h.store.Guards(context.Background(), carillon.GuardQuery{
		Namespace: carillon.DefaultNamespace, Keys: []string{job.OverlapKey()},
	})
	h.must(err)
	return guards[0].Rev
}

// An end that loses its first commit is read again and committed again. That must not be the rule for jobs
// whose runs take longer than their interval.
func TestTheEndOfARunBehindWhichOthersCameIsCommittedWithoutARead(t *testing.T) {
	for _, overlap := range []carillon.Overlap{
		carillon.OverlapSkip, carillon.OverlapQueue, carillon.OverlapQueueAll, carillon.OverlapReplace,
	} {
		t.Run(string(overlap), func(t *testing.T) {
			in(t, 0, func(h *house) {
				reads := &countedReads{Store: h.store}
				h.read = reads
				h.live()
				n := h.nodes[0]
				worker := h.register(n)
				h.submit(n, func(d *carillon.Definition) {
					d.Schedule, d.Overlap = carillon.Schedule{Every: carillon.Duration(time.Second)}, overlap
				})
				first := h.one(n, worker)
				held := []carillon.Held{first.Held()}
				rev := h.guardRev(first.Job.ID)
				for number := range 4 { // others of its job come and are skipped, or wait
					time.Sleep(time.Second)
					_, err := n.Beat(context.Background(), carillon.Beat{
						ID: worker, Number: int64(number + 1), Holds: held,
					})
					h.must(err)
				}
				if overlap == carillon.OverlapSkip && h.guardRev(first.Job.ID) != rev {
					t.Error("a skip writes the guard")
				}
				time.Sleep(time.Second / 2) // between two due times no decision is in the way
				before := reads.runs.Load()
				receipt := h.report(n, worker, protocol.Report{
					Held: held[0], End: &carillon.Outcome{Kind: carillon.OutcomeSuccess},
				})
				if got := reads.runs.Load() - before; receipt != protocol.ReceiptRecorded || got != 0 {
					t.Errorf("receipt %q after %d reads", receipt, got)
				}
			})
		})
	}
}
