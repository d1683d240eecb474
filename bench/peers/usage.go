package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// usage is what a process and all its descendants have used since they began, including those that have
// ended.
type usage struct {
	cpu     time.Duration // in user and kernel mode
	written int64         // bytes sent to disks
}

func (u usage) minus(v usage) usage { return usage{u.cpu - v.cpu, u.written - v.written} }
func (u usage) plus(v usage) usage  { return usage{u.cpu + v.cpu, u.written + v.written} }

// usageOf adds up a process and its descendants. A process that has ended counts with the parent that waited
// for it.
func usageOf(pid int) (sum usage) {
	for _, p := range family(pid) {
		sum.cpu += cpuOf(p)
		sum.written += int64(field(fmt.Sprintf("/proc/%d/io", p), "write_bytes:"))
	}
	return sum
}

// memoryOf is a figure of /proc/PID/status for a process and its descendants, in MB: VmRSS, or VmHWM for the
// peak.
func memoryOf(pid int, name string) (mb float64) {
	for _, p := range family(pid) {
		mb += field(fmt.Sprintf("/proc/%d/status", p), name+":") / 1024
	}
	return mb
}

// tick is the unit in which /proc counts processor time: a hundred a second wherever Linux runs.
const tick = 10 * time.Millisecond

func cpuOf(pid int) time.Duration {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, ok := strings.Cut(string(b), ") ") // the name before it can contain anything
	fields := strings.Fields(rest)
	if !ok || len(fields) < 15 {
		return 0 // it has ended
	}
	var sum time.Duration
	for _, f := range fields[11:15] { // utime, stime, and the same of children that were waited for
		n, _ := strconv.ParseInt(f, 10, 64)
		sum += time.Duration(n) * tick
	}
	return sum
}

// field is the number after a name at the beginning of a line; 0 if there is none.
func field(path, name string) float64 {
	b, _ := os.ReadFile(path)
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			if parts := strings.Fields(rest); len(parts) > 0 {
				n, _ := strconv.ParseFloat(parts[0], 64)
				return n
			}
		}
	}
	return 0
}

// family is a process and its descendants.
func family(pid int) []int {
	if pid == 0 {
		return nil
	}
	pids := []int{pid}
	for i := 0; i < len(pids); i++ {
		tasks, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pids[i]))
		for _, task := range tasks {
			b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", pids[i], task.Name()))
			for _, text := range strings.Fields(string(b)) {
				if n, err := strconv.Atoi(text); err == nil {
					pids = append(pids, n)
				}
			}
		}
	}
	return pids
}
