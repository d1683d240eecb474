package executor

import (
	"time"

	"golang.org/x/sys/unix"
)

// Boottime is the time since the machine started, sleep included. All processes of a machine read the same
// clock, and none can set it.
func Boottime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic("clock_gettime(CLOCK_BOOTTIME): " + err.Error()) // since Linux 2.6.39; unsafe without it
	}
	return time.Duration(ts.Nano())
}
