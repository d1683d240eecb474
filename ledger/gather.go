package ledger

import (
	"runtime"
	"time"
)

// A commit costs about as much for one change as for a dozen. So between a single change, which goes at once, and so many that
// several commits at a time pay, it is best to gather: callers that wait for their changes come back with the next ones as soon as they
// are answered.
const (
	few       = 4
	many      = 64
	gathering = 100 * time.Microsecond
	maxYields = 1000 // also where time stands still, as in a test
)

// count is how many changes there are; more than many are as good as many.
func (w line) count() (n int) {
	for i := 0; i < len(w) && n < many; i++ {
		n += len(w[i].changes)
	}
	return n
}

// worthwhile says whether what waits should be written beside what is being written. If not, who is writing takes it next, with
// all that comes until then. The caller holds mu.
func (l *Ledger) worthwhile() bool {
	return l.writing < few || l.starts.count()+l.ends.count() >= many
}

// gather lets those who were just answered come back, for a moment.
func (l *Ledger) gather(answered line) {
	if n := answered.count(); n >= few && n < many {
		want := l.inLine() + len(answered)
		for try, begin := 0, time.Now(); try < maxYields && l.inLine() < want && time.Since(begin) < gathering; try++ {
			runtime.Gosched()
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writing -= answered.count()
}

// inLine is how many callers wait for their changes.
func (l *Ledger) inLine() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.starts)
}
