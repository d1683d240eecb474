package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
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

// cpuOfChildren is the processor time that the processes below this one have used so far: a database server.
// Those that have ended count too, if their parents waited for them.
func cpuOfChildren() (used time.Duration) {
	const tick = 10 * time.Millisecond // in which the kernel counts
	type process struct{ parent, ticks int }
	all := map[int]process{}
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range files {
		stat, _ := os.ReadFile(name) // a process may have ended
		var id, user, kernel, ended, endedKernel, skip int
		var p process
		var s string
		_, rest, _ := strings.Cut(string(stat), ") ") // behind its name, which may have spaces
		n, _ := fmt.Sscan(rest, &s, &p.parent, &skip, &skip, &skip, &skip, &skip, &skip, &skip, &skip, &skip,
			&user, &kernel, &ended, &endedKernel)
		if _, err := fmt.Sscan(string(stat), &id); err == nil && n == 15 {
			p.ticks = user + kernel + ended + endedKernel
			all[id] = p
		}
	}
	for id, p := range all {
		for parent, steps := id, 0; parent > 1 && steps < 20; steps++ {
			if parent = all[parent].parent; parent == os.Getpid() {
				used += time.Duration(p.ticks) * tick
				break
			}
		}
	}
	return used
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
