package executor

import (
	"fmt"
	"math"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// supervised says that this program calls Supervise. A program that does not would run itself when it is
// started again.
var supervised atomic.Bool

// Supervise must be the first thing in main, and in TestMain, of a program that runs commands. It returns at
// once, unless a Command started the program as the supervisor of one; then it never returns.
func Supervise() {
	supervised.Store(true)
	if len(os.Args) > 0 && os.Args[0] == supervisorName {
		// The command is killed with the thread that started it (PDEATHSIG), so that must be this thread.
		runtime.LockOSThread()
		supervise()
		syscall.Exit(0) // os.Exit runs hooks, which with the race detector take a second
	}
}

// socketFD is the supervisor's end of the socket to its worker; the leash comes after it.
const socketFD = 3

// supervisor stands between a worker and one command. It is one thread that waits for four things at once: a
// message from the worker, the end of the worker, the end of the command, and a deadline. It does not depend
// on a healthy worker in anything it does. Waiting allocates nothing, so that a command can run for months.
type supervisor struct {
	spec   spec
	in     []byte // received and not yet decoded
	lease  time.Duration
	killAt time.Duration // end of the grace; never until asked to stop
	asked  bool
	main   int // the command's pid
	pidfd  int // -1 on kernels before 5.3, and when the command has ended
	timer  int
	status syscall.WaitStatus
	reaped bool // the command's status is known

	crowd   crowd
	signals chan os.Signal // that this process received
	alive   map[int]bool   // processes that cannot be killed, and were reported
}

const never = time.Duration(math.MaxInt64)

func supervise() {
	s := &supervisor{
		killAt: never, lease: never, pidfd: -1, timer: -1, signals: make(chan os.Signal, 1),
		alive: map[int]bool{},
	}
	// The supervisor catches these signals and does not obey them: it stops the command in the worker's way.
	// Signals that it ignored would stay ignored in the command.
	signal.Notify(s.signals, unix.SIGHUP, unix.SIGINT, unix.SIGTERM, unix.SIGQUIT)
	_ = unix.SetNonblock(socketFD, true)
	if !s.receive() {
		s.tidy() // the worker died before this began, perhaps after it sent the spec
		return
	}
	closeOthers(s.spec.leash)
	if s.asked {
		s.report(report{how: onRequest})
		return
	}
	if Boottime() >= s.lease {
		s.report(report{how: leaseOver})
		return
	}
	if errno := s.start(); errno != 0 {
		s.report(report{how: notStarted, errno: errno})
		return
	}
	how := s.watch()
	s.killTree()
	if how == byItself && s.signaledWithAll() {
		how = withAll
	}
	s.report(report{how: how, status: s.status})
}

// receive waits for the spec. There is no command yet, so waiting does no harm.
func (s *supervisor) receive() bool {
	for {
		if open := s.read(); s.spec.program != "" || !open {
			return open
		}
		poll(-1, unix.PollFd{Fd: socketFD, Events: unix.POLLIN})
	}
}

// start makes this process the parent of all orphans of the command's tree, so that it can find them. Then it
// starts the command as the leader of a separate session.
func (s *supervisor) start() syscall.Errno {
	_ = os.WriteFile("/proc/self/comm", []byte("supervise"), 0) // ps would say "exe"
	// The command has the same user: without this it could trace its supervisor. From here on /proc/self
	// belongs to root.
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return err.(syscall.Errno)
	}
	if !s.spec.setuid { // this thread forks the command, which inherits the setting for good
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return err.(syscall.Errno)
		}
	}
	timer, err := unix.TimerfdCreate(unix.CLOCK_BOOTTIME, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return err.(syscall.Errno)
	}
	s.timer = timer
	s.main, err = syscall.ForkExec(s.spec.program, s.spec.argv, &syscall.ProcAttr{
		Dir: s.spec.dir, Env: s.spec.env, Files: []uintptr{0, 1, 2},
		Sys: &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL, PidFD: &s.pidfd},
	})
	if errno, ok := err.(syscall.Errno); ok {
		return errno
	}
	s.spec.env = nil
	return 0
}

// watch returns when the tree has to be killed, and says why.
func (s *supervisor) watch() ending {
	for {
		// Each is read only once: the command may end between two reads, and would then count as stopped.
		open, ended, now := s.read(), s.mainEnded(), Boottime()
		switch {
		case ended && !s.asked:
			return byItself
		case ended && s.groupEnded(), now >= s.killAt:
			return onRequest
		case !open:
			return orphaned
		case now >= s.lease:
			return leaseOver
		case s.crowded(now):
			return crowded
		}
		s.sleep(min(s.lease, s.killAt))
	}
}

// read takes in the worker's messages. It returns false when the worker is gone.
func (s *supervisor) read() (open bool) {
	var buf [4096]byte
	for {
		n, err := unix.Read(socketFD, buf[:])
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN:
			return true
		case err != nil || n == 0:
			return false
		}
		s.in = append(s.in, buf[:n]...)
		for {
			kind, body, rest, ok := cutFrame(s.in)
			if !ok {
				break
			}
			s.obey(kind, body)
			s.in = s.in[:copy(s.in, rest)]
		}
	}
}

func (s *supervisor) obey(kind byte, body []byte) {
	switch kind {
	case frameSpec:
		if given, ok := decodeSpec(body); ok {
			s.spec, s.lease = given, given.lease
		}
	case frameLease:
		s.lease = bodyTime(body)
	case frameStop:
		grace := bodyTime(body)
		s.asked, s.killAt = true, Boottime()+grace
		if grace > 0 && s.main > 0 && !s.mainEnded() {
			_ = unix.Kill(-s.main, unix.SIGTERM)
			_ = unix.Kill(-s.main, unix.SIGCONT) // a stopped process reacts to nothing else
		}
	}
}

// mainEnded checks without reaping: until the group has been killed, the dead command keeps the number of its
// process group from being given to others.
func (s *supervisor) mainEnded() bool {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, s.main, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	return s.reaped || err == nil && info.Signo != 0
}

// groupEnded says that no process is left of those that got SIGTERM. The command can end before the processes
// that it started: a shell ends at once, while the program that it waits for uses its grace.
func (s *supervisor) groupEnded() bool {
	s.reap()
	return unix.Kill(-s.main, 0) == unix.ESRCH
}

// signaledWithAll says that the command failed because a service manager signaled every process of the
// service, this one too. That is a shutdown, which must not cost the run an attempt. The two signals come in
// any order, and Go takes a moment to pass one on: a failed attempt can wait for it.
func (s *supervisor) signaledWithAll() bool {
	wait := 20 * time.Millisecond
	switch {
	case s.status == 0:
		return false
	case s.status.Signaled() &&
		slices.Contains(
			[]syscall.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGTERM, unix.SIGQUIT}, s.status.Signal(),
		):
		wait = 200 * time.Millisecond
	}
	select {
	case <-s.signals:
		return true
	case <-time.After(wait):
		return false
	}
}

// tidyEvery is how often the supervisor reaps orphans that ended while the command goes on, and looks whether
// the machine has many more processes. A program can start a few thousand in that time.
const tidyEvery = 250 * time.Millisecond

// sleep waits for the worker, the command or the instant until. The timer uses boottime: poll's own timeout
// would stand still while the machine sleeps.
func (s *supervisor) sleep(until time.Duration) {
	before := s.reaped
	s.reap()
	if s.reaped != before {
		return
	}
	timeout := tidyEvery
	if s.pidfd < 0 {
		timeout = 10 * time.Millisecond // no pidfd to poll for the end of the command, or of its group
	}
	if until != never {
		at := unix.NsecToTimespec(max(int64(until), 1))
		_ = unix.TimerfdSettime(s.timer, unix.TFD_TIMER_ABSTIME, &unix.ItimerSpec{Value: at}, nil)
	}
	in := int16(unix.POLLIN)
	poll(
		timeout, unix.PollFd{Fd: socketFD, Events: in}, unix.PollFd{Fd: int32(s.timer), Events: in},
		unix.PollFd{Fd: int32(s.pidfd), Events: in},
	)
}

// poll returns when a descriptor is ready, after timeout (negative: none), or for no reason.
func poll(timeout time.Duration, fds ...unix.PollFd) {
	ms := -1
	if timeout >= 0 {
		ms = int(timeout.Milliseconds())
	}
	_, _ = unix.Poll(fds, ms)
}

// cannotKill tells the worker, once, of a process that belongs to another user. It also writes the process
// into the leash for the next worker.
func (s *supervisor) cannotKill(pid int, err error) {
	if s.alive[pid] {
		return
	}
	s.alive[pid] = true
	name, user := program(pid)
	text := fmt.Sprintf("process %d (%s) of user %s cannot be killed: %s", pid, name, user, err)
	_, _ = unix.SendmsgN(socketFD, frame(frameAlive, []byte(text)), nil, nil, unix.MSG_NOSIGNAL)
	if s.spec.leash {
		_, _ = unix.Write(socketFD+1, []byte(text+"\n"))
	}
}

// report sends the last message. If there is no worker to receive it, this process tidies up in the worker's
// place.
func (s *supervisor) report(r report) {
	if _, err := unix.SendmsgN(socketFD, r.encode(), nil, nil, unix.MSG_NOSIGNAL); err != nil {
		s.tidy()
	}
}

func (s *supervisor) tidy() {
	if s.spec.scratch != "" {
		removeAll(s.spec.scratch)
	}
}

// closeOthers closes files that the worker passed on without knowing (sockets of socket activation, for
// example), and keeps the rest from the command.
func closeOthers(leash bool) {
	last := socketFD
	if leash {
		last++
	}
	list, _ := os.ReadDir("/proc/self/fd")
	for _, entry := range list {
		fd, err := strconv.Atoi(entry.Name())
		if err != nil || fd < socketFD {
			continue
		}
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		switch {
		case err != nil || flags&unix.FD_CLOEXEC != 0: // closed already, or the Go runtime's own
		case fd <= last:
			unix.CloseOnExec(fd)
		default:
			_ = unix.Close(fd)
		}
	}
}
