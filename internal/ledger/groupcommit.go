package ledger

import (
	"runtime"
	"time"
)

// A commit costs about as much for one change as for a dozen. A few changes are written at once, and many
// changes are worth several commits at a time. For a batch in between it pays to wait a moment after its
// commit: callers that wait for their changes come back with the next ones as soon as they are answered, and
// share the next group commit.
const (
	smallBatch = 4
	largeBatch = 64
	// maxGroupAge is how long a change waits for a running commit before it is written beside it.
	maxGroupAge = 5 * time.Millisecond
	// groupWait is how long the ledger waits for callers. If other work keeps the processor busy, the wait
	// takes longer; then the next hurry commits do without it.
	groupWait    = 100 * time.Microsecond
	maxYields    = 1000 // ends the wait also where time stands still, as in a test
	skippedWaits = 100
)

// count is the number of changes. It stops counting once there are many.
func (w entries) count() (n int) {
	for i := 0; i < len(w) && n < largeBatch; i++ {
		n += len(w[i].changes)
	}
	return n
}

func (w entries) tooOld() bool { return len(w) > 0 && time.Since(w[0].since) >= maxGroupAge }

// shouldFlush says whether the waiting changes should be written beside the running commits. If not, the
// flusher that is writing takes them next, with all that come until then. The caller holds mu.
func (l *Ledger) shouldFlush() bool {
	if l.writing < smallBatch || l.writing >= largeBatch {
		return true
	}
	submits := l.submits
	if l.holding() {
		submits = nil
	}
	return l.starts.count()+submits.count()+l.ends.count() >= largeBatch ||
		l.starts.tooOld() || submits.tooOld() || l.ends.tooOld()
}

// flushTimer fires when a flusher must ask again whether the waiting changes are worthwhile; never if none
// wait.
func (l *Ledger) flushTimer() <-chan time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.starts)+len(l.submits)+len(l.ends) == 0 {
		return nil
	}
	return time.After(maxGroupAge)
}

// regroup gives the callers that were just answered a moment to come back.
func (l *Ledger) regroup(answered entries) {
	callers := 0
	for i := range answered {
		if !answered[i].posted {
			callers++
		}
	}
	if n := answered.count(); n >= smallBatch && n < largeBatch && callers > 0 {
		l.waitForCallers(callers)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writing -= answered.count()
}

// waitForCallers yields the processor until this many more starts wait.
func (l *Ledger) waitForCallers(callers int) {
	l.mu.Lock()
	want, skip := len(l.starts)+len(l.submits)+callers, l.skipWaits > 0
	l.skipWaits = max(l.skipWaits-1, 0)
	l.mu.Unlock()
	if skip {
		return
	}
	begin := time.Now()
	for try := 0; try < maxYields && l.queued() < want && time.Since(begin) < groupWait; try++ {
		runtime.Gosched()
	}
	if time.Since(begin) > 10*groupWait { // a yield waits for all goroutines that want the processor
		l.mu.Lock()
		defer l.mu.Unlock()
		l.skipWaits = skippedWaits
	}
}

// queued is the number of entries that wait, without ends.
func (l *Ledger) queued() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.starts) + len(l.submits)
}
