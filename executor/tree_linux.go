package executor

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// killTree returns when this process has no descendant left. It kills only its own children. Their children
// then become children of this process, because it is their subreaper, and are killed next. The kernel cannot
// give a child's pid to another process before this thread reaps the child, so no other process can be hit.
func (s *supervisor) killTree() {
	_ = unix.Setpriority(unix.PRIO_PROCESS, 0, -20) // if allowed: a fork bomb must not starve its killer
	const shortest, longest = 100 * time.Microsecond, 20 * time.Millisecond
	pause := shortest
	for {
		for _, pid := range children() {
			if err := kill(pid); err == unix.EPERM {
				s.cannotKill(pid, err)
			}
		}
		reaped, left := s.reap()
		switch {
		case !left:
			return
		case reaped > 0:
			pause = shortest
		default:
			time.Sleep(pause)
			pause = min(2*pause, longest) // a process does not die yet: in the kernel, or not ours to kill
		}
	}
}

// kill kills the child's whole process group first. The kernel does that in one step, which no fork can
// escape; if processes were killed one by one, a process that forks fast enough could escape. Meanwhile the
// dead child's membership keeps the group's number ours. A group with a descendant in it contains only
// descendants: a process can join only a group of its own session, and the command began a new session.
func kill(pid int) error {
	if group, err := unix.Getpgid(pid); err == nil && group > 1 && group != unix.Getpgrp() {
		_ = unix.Kill(-group, unix.SIGKILL)
	}
	return unix.Kill(pid, unix.SIGKILL)
}

// reap takes the dead children off the process table, and says how many there were and whether any child is
// left.
func (s *supervisor) reap() (reaped int, left bool) {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WNOHANG|unix.WALL, nil)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return reaped, false // ECHILD
		case pid == 0:
			return reaped, true
		case pid == s.main:
			s.status, s.reaped = syscall.WaitStatus(status), true
			_ = unix.Close(s.pidfd)
			s.pidfd = -1 // always ready from now on
		}
		reaped++
	}
}

// children are the pids of this process's children, dead or alive. It may miss a child that comes during the
// scan: the caller scans again until there is none.
func children() []int {
	pids, err := childrenIn("/proc/self/task/")
	if err != nil {
		return childrenByScan() // a kernel without CONFIG_PROC_CHILDREN, or a thread that just ended
	}
	return pids
}

// childrenIn are the pids of the children of a process, whose threads are listed in a directory of /proc.
func childrenIn(tasks string) (pids []int, err error) {
	threads, err := os.ReadDir(tasks)
	if err != nil {
		return nil, err
	}
	for _, thread := range threads {
		list, err := os.ReadFile(tasks + thread.Name() + "/children")
		if err != nil {
			return pids, err
		}
		for _, field := range strings.Fields(string(list)) {
			if pid, err := strconv.Atoi(field); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids, nil
}

func childrenByScan() []int {
	var pids []int
	self := os.Getpid()
	for pid := range processes() {
		if parent(pid) == self {
			pids = append(pids, pid)
		}
	}
	return pids
}

// processes are all pids of the machine.
func processes() func(yield func(int) bool) {
	return func(yield func(int) bool) {
		list, _ := os.ReadDir("/proc")
		for _, entry := range list {
			if pid, err := strconv.Atoi(entry.Name()); err == nil && !yield(pid) {
				return
			}
		}
	}
}

// statOf returns the fields of /proc/pid/stat from the third on, none if there is no such process. The second
// is the program's name in parentheses, which can itself contain spaces and parentheses.
func statOf(pid int) []string {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return nil
	}
	return strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
}

func parent(pid int) int {
	fields := statOf(pid)
	if len(fields) < 2 {
		return 0
	}
	ppid, _ := strconv.Atoi(fields[1])
	return ppid
}

// program is the name of a process and its user.
func program(pid int) (name, user string) {
	status, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	for line := range strings.Lines(string(status)) {
		key, value, _ := strings.Cut(line, ":")
		switch key {
		case "Name":
			name = strings.TrimSpace(value)
		case "Uid":
			user = strings.Fields(value)[1] // the effective one
		}
	}
	return name, user
}

// killStrays is for a supervisor that was itself killed: its command died with it, and the processes that the
// command had started are now children of init. killStrays finds them by their environment. It returns when
// two scans in a row find none.
func killStrays(env ...string) {
	for quiet := 0; quiet < 2; quiet++ {
		for pid := range processes() {
			if pid != os.Getpid() && stray(pid, env) {
				quiet = -1
			}
		}
		time.Sleep(time.Millisecond)
	}
}

// stray kills the process if its environment has all of env. A pidfd holds the process between the check and
// the kill, so that the pid cannot pass to another process.
func stray(pid int, env []string) bool {
	p, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	defer p.Release()
	environ, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil || len(environ) == 0 {
		return false // not ours to read, a kernel thread, or a zombie
	}
	has := "\x00" + string(environ)
	for _, pair := range env {
		if !strings.Contains(has, "\x00"+pair+"\x00") {
			return false
		}
	}
	return p.Kill() == nil
}
