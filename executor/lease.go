package executor

import (
	"sync/atomic"
	"time"
)

// Lease is the time until which a worker can go on, on CLOCK_BOOTTIME. That clock goes on while the machine
// sleeps: a laptop that wakes up after an hour must not believe that its lease has four seconds left. The
// zero value is over.
type Lease struct{ until atomic.Int64 } // nanoseconds of CLOCK_BOOTTIME

// Extend moves the end of the lease to a later instant, as Boottime counts. It ignores an earlier one, so
// that beats answered out of order do no harm.
func (l *Lease) Extend(until time.Duration) {
	for {
		now := l.until.Load()
		if int64(until) <= now || l.until.CompareAndSwap(now, int64(until)) {
			return
		}
	}
}

// Until is when the lease ends.
func (l *Lease) Until() time.Duration { return time.Duration(l.until.Load()) }
