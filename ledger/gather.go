package ledger

import (
	"runtime"
	"time"
)

// A commit costs about as much for one change as for a dozen. So between a few changes, which go at once, and so many that
// several commits at a time pay, it is best to gather: callers that wait for their changes come back with the next ones as soon as they
// are answered.
const (
	few  = 4
	many = 64
	// stuck is how long a change waits for a commit that is under way before it is written beside it.
	stuck = 5 * time.Millisecond
	// gathering is how long callers are waited for. Where others keep the processor busy it takes longer, and is not done for the next
	// hurry commits.
	gathering = 100 * time.Microsecond
	maxYields = 1000 // also where time stands still, as in a test
	hurry     = 100
)

// count is how many changes there are; more than many are as good as many.
func (w line) count() (n int) {
	for i := 0; i < len(w) && n < many; i++ {
		n += len(w[i].changes)
	}
	return n
}

func (w line) stuck() bool { return len(w) > 0 && time.Since(w[0].since) >= stuck }

// worthwhile says whether what waits should be written beside what is being written. If not, who is writing takes it next, with
// all that comes until then. The caller holds mu.
func (l *Ledger) worthwhile() bool {
	return l.writing < few || l.writing >= many || l.starts.count()+l.ends.count() >= many || l.starts.stuck() || l.ends.stuck()
}

// overdue is when to look again at what was not worthwhile; never if nothing waits.
func (l *Ledger) overdue() <-chan time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.starts)+len(l.ends) == 0 {
		return nil
	}
	return time.After(stuck)
}

// gather lets those who were just answered come back, for a moment.
func (l *Ledger) gather(answered line) {
	callers := 0
	for i := range answered {
		if !answered[i].posted {
			callers++
		}
	}
	if n := answered.count(); n >= few && n < many && callers > 0 {
		l.await(callers)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writing -= answered.count()
}

// await yields to callers until so many more are in line.
func (l *Ledger) await(callers int) {
	l.mu.Lock()
	want, skip := len(l.starts)+callers, l.hurried > 0
	l.hurried = max(l.hurried-1, 0)
	l.mu.Unlock()
	if skip {
		return
	}
	begin := time.Now()
	for try := 0; try < maxYields && l.inLine() < want && time.Since(begin) < gathering; try++ {
		runtime.Gosched()
	}
	if time.Since(begin) > 10*gathering { // who yields waits for all who want the processor
		l.mu.Lock()
		defer l.mu.Unlock()
		l.hurried = hurry
	}
}

// inLine is how many entries wait that are no ends.
func (l *Ledger) inLine() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.starts)
}
