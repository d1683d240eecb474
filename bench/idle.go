package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"
)

const idleFor = 20 * time.Second

// aheadScenario: a million jobs wait a day ahead. It measures a fresh process, as after a restart.
func aheadScenario(ctx context.Context, b *bench) error {
	at, err := b.fresh(ctx)
	if err != nil {
		return err
	}
	if err := b.backlog(ctx, at, b.count(1_000_000), tomorrow()); err != nil {
		return err
	}
	b.say("measuring a fresh process for %s", idleFor)
	c, err := b.spawn("idle")
	if err != nil {
		return err
	}
	err = c.tell(orders{Data: at.data, Store: at.store})
	if err := errors.Join(err, c.end()); err != nil {
		return fmt.Errorf("measure an idle process: %w", err)
	}
	var rss, cpu float64
	if _, err := fmt.Sscan(c.said, &rss, &cpu); err != nil {
		return fmt.Errorf("read what an idle process said: %w", err)
	}
	b.figure("ahead_rss", rss, "MB")
	b.figure("ahead_cpu", cpu, "%_of_a_core")
	return b.discard(ctx, at)
}

// measureIdle runs in the fresh process: it prints its memory and its share of a core.
func measureIdle(o orders) error {
	h, err := open(place{data: o.Data, store: o.Store}.config(slots), nil)
	if err != nil {
		return err
	}
	time.Sleep(2 * time.Second) // by now the node has loaded its runs
	cpu, start := cpuTime(), time.Now()
	time.Sleep(idleFor)
	share := 100 * (cpuTime() - cpu).Seconds() / time.Since(start).Seconds()
	fmt.Println(residentMB(), share)
	return h.stop()
}

// cpuTime is the processor time that this process has used so far, in user and kernel mode.
func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// residentMB is the memory that this process holds.
func residentMB() float64 {
	status, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		var kb float64
		if n, _ := fmt.Sscanf(line, "VmRSS: %f kB", &kb); n == 1 {
			return kb / 1024
		}
	}
	return 0
}
