package main

import (
	"context"
	"runtime"
	"time"
)

// spent is what this process has used since it began. It does not include a database server.
type spent struct {
	cpu    time.Duration
	allocs uint64
}

func spentSoFar() spent {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return spent{cpuTime(), m.Mallocs}
}

// spentOn reports what each of n jobs cost between from and to.
func (b *bench) spentOn(name string, n float64, from, to spent) {
	b.figure(name+"_cpu", float64((to.cpu-from.cpu).Microseconds())/n, "us/job")
	b.figure(name+"_allocs", float64(to.allocs-from.allocs)/n, "allocs/job")
}

// metered is a crew that notes what had been spent when the last job was recorded: the cost of ending the
// crew is not a cost of the jobs.
type metered struct {
	crew
	at *spent
}

func (m metered) empty(ctx context.Context, n int) error {
	err := m.crew.empty(ctx, n)
	*m.at = spentSoFar()
	return err
}
