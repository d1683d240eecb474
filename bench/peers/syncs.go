package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/carillon-run/carillon/bench/peers/peer"
)

// syncs: how often processes wait for the disk. It is counted in a separate, short drain, because tracing
// makes everything slower. Batches are larger then, so the count is rather too low than too high.
func syncs(ctx context.Context, m *measurement) error {
	strace, err := exec.LookPath("strace")
	if err != nil {
		return fmt.Errorf("syncs_per_job: %w", err)
	}
	jobs := m.count(20_000)
	if err := m.fill(ctx, jobs, peer.Job{}); err != nil {
		return err
	}
	c, err := m.start(ctx)
	if err != nil {
		return err
	}
	args := []string{"-f", "-c", "-qq", "-e", "trace=fsync,fdatasync,sync_file_range,msync"}
	for _, pid := range append(family(c.cmd.Process.Pid), family(m.at.server)...) {
		args = append(args, "-p", strconv.Itoa(pid))
	}
	watch := exec.Command(strace, args...)
	var out bytes.Buffer
	watch.Stderr = &out
	watcher, err := launch(watch)
	if err != nil {
		return err
	}
	defer watcher.kill()
	if err := attached(ctx, watcher, c); err != nil {
		return fmt.Errorf("syncs_per_job: %w: %s", err, out.String())
	}
	d, err := m.drainBy(ctx, c, jobs)
	if err != nil {
		return err
	}
	_ = watch.Process.Signal(syscall.SIGINT)
	select {
	case <-watcher.ended:
	case <-time.After(10 * time.Second):
		return errors.New("syncs_per_job: strace does not end")
	}
	m.figure("syncs_per_job", float64(countCalls(out.String()))/float64(d.jobs), "syncs", d.note)
	return nil
}

// attached waits until the process is being traced.
func attached(ctx context.Context, watcher *process, c *child) error {
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
		if field(fmt.Sprintf("/proc/%d/status", c.cmd.Process.Pid), "TracerPid:") != 0 {
			return pause(ctx, 300*time.Millisecond) // the other threads and processes follow
		}
		select {
		case <-watcher.ended:
			return errors.New("strace may not look")
		case <-time.After(10 * time.Millisecond):
		}
	}
	return errors.New("strace does not begin")
}

// A line of the summary: share, seconds, microseconds a call, calls, perhaps errors, name.
var summary = regexp.MustCompile(
	`^\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(?:\d+\s+)?(fsync|fdatasync|sync_file_range|msync)\s*$`,
)

// countCalls reads the summary of strace -c.
func countCalls(text string) (n int) {
	for line := range strings.Lines(text) {
		if found := summary.FindStringSubmatch(strings.TrimRight(line, "\n")); found != nil {
			k, _ := strconv.Atoi(found[1])
			n += k
		}
	}
	return n
}
