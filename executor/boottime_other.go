//go:build !linux

package executor

import "time"

var started = time.Now()

// Boottime is the time since the program started. Without CLOCK_BOOTTIME it may stand still while the machine sleeps;
// commands, whose leases it is for, are refused on such systems.
func Boottime() time.Duration { return time.Since(started) }
