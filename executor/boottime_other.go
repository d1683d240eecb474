//go:build !linux

package executor

import "time"

var started = time.Now()

// Boottime is the time since the program started. Without CLOCK_BOOTTIME it can stand still while the machine
// sleeps. It measures leases, which commands need, but this package refuses commands on such systems.
func Boottime() time.Duration { return time.Since(started) }
