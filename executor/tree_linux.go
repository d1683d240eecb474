package executor

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// killTree returns when this process has no descendant left. It kills its children only: theirs become its own by that,
// because it is their subreaper, and are next. A child's pid cannot be given to somebody else before this thread reaps
// it, so nobody else can be hit.
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
			pause = min(2*pause, longest) // something does not die yet: in the kernel, or not ours to kill
		}
	}
}

// kill takes the child's whole process group first. The kernel does that in one step, which no fork can escape; one by
// one, a process that forks fast enough could. The dead child's membership keeps the group's number ours meanwhile,
// and a group with a descendant in it has no others: joining one takes the same session, and the command began its own.
func kill(pid int) error {
	if group, err := unix.Getpgid(pid); err == nil && group > 1 && group != unix.Getpgrp() {
		_ = unix.Kill(-group, unix.SIGKILL)
	}
	return unix.Kill(pid, unix.SIGKILL)
}

// reap takes the dead children off the process table, and says how many there were and whether any child is left.
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

// children are the pids of this process's children, dead or alive. One that comes while this looks may be missed: the
// caller looks again until there is none.
func children() []int {
	tasks, err := os.ReadDir("/proc/self/task")
	var pids []int
	for _, task := range tasks {
		var list []byte
		if list, err = os.ReadFile("/proc/self/task/" + task.Name() + "/children"); err != nil {
			break
		}
		for _, field := range strings.Fields(string(list)) {
			if pid, err := strconv.Atoi(field); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	if err != nil || len(tasks) == 0 {
		return childrenByScan() // a kernel without CONFIG_PROC_CHILDREN, or a thread that just ended
	}
	return pids
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

// statOf gives the fields of /proc/pid/stat from the third on, none if there is no such process. The second is the
// program's name in parentheses, which may itself contain spaces and parentheses.
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

// killStrays is for a supervisor that was itself killed: its command died with it, what the command had started is now
// init's. They are known by their environment. It returns when two looks in a row find none.
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

// stray kills the process if it has all of env. It is held by a pidfd between the look and the kill, so that the pid
// cannot change hands.
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
