package executor

import (
	"math"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// supervised says that this program calls Supervise. Without that, starting it again would run the program itself.
var supervised atomic.Bool

// Supervise must be the first thing in main, and in TestMain, of a program that runs commands. It returns at once
// unless the program was started by a Command as the supervisor of one; then it never returns.
func Supervise() {
	supervised.Store(true)
	if len(os.Args) > 0 && os.Args[0] == supervisorName {
		runtime.LockOSThread() // the command is killed with the thread that started it (PDEATHSIG): it must be this one
		supervise()
		syscall.Exit(0) // os.Exit runs hooks, which with the race detector take a second
	}
}

// socketFD is the supervisor's end of the socket to its worker; the leash comes after it.
const socketFD = 3

// supervisor stands between a worker and one command. It is one thread that waits for four things at once: word from
// the worker, the worker's end, the end of the command, and a deadline. Nothing it does depends on the worker being
// well.
type supervisor struct {
	spec   spec
	in     []byte // received and not yet understood
	lease  time.Duration
	killAt time.Duration // end of the grace; never until asked to stop
	asked  bool
	main   int // the command's pid
	pidfd  int // -1 on kernels before 5.3
	timer  int
	status syscall.WaitStatus
	reaped bool // the command's status is known
}

const never = time.Duration(math.MaxInt64)

func supervise() {
	// Caught, not ignored: a service manager or a terminal may signal everybody, and then the command must be stopped
	// in the worker's way. Ignored signals would stay ignored in the command.
	signal.Notify(make(chan os.Signal, 1), unix.SIGHUP, unix.SIGINT, unix.SIGTERM, unix.SIGQUIT)
	s := &supervisor{killAt: never, lease: never, pidfd: -1, timer: -1}
	if !s.receive() {
		return // the worker died before it said what to run
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
	s.report(report{how: how, status: s.status})
}

// receive waits for the spec. There is no command yet, so nothing can go wrong by waiting.
func (s *supervisor) receive() bool {
	for {
		if open := s.read(); s.spec.program != "" || !open {
			return open
		}
		poll(-1, unix.PollFd{Fd: socketFD, Events: unix.POLLIN})
	}
}

// start makes orphans of the command's tree children of this process, which is what makes them findable, and starts
// the command as the leader of a session of its own.
func (s *supervisor) start() syscall.Errno {
	_ = os.WriteFile("/proc/self/comm", []byte("supervise"), 0) // ps would say "exe"
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return err.(syscall.Errno)
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

// watch returns when the tree has to go, and why.
func (s *supervisor) watch() ending {
	for {
		open := s.read()
		now := Boottime()
		switch {
		case s.mainEnded() && !s.asked:
			return byItself
		case s.mainEnded(), now >= s.killAt:
			return onRequest
		case !open:
			return orphaned
		case now >= s.lease:
			return leaseOver
		}
		s.sleep(min(s.lease, s.killAt))
	}
}

// read takes in what the worker said. It is false when the worker has gone.
func (s *supervisor) read() (open bool) {
	var buf [4096]byte
	for {
		n, _, err := unix.Recvfrom(socketFD, buf[:], unix.MSG_DONTWAIT)
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
			_ = unix.Kill(-s.main, unix.SIGCONT) // a stopped process hears nothing else
		}
	}
}

// mainEnded looks without reaping: the dead command keeps its process group's number from being given to others until
// the group has been killed.
func (s *supervisor) mainEnded() bool {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, s.main, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	return s.reaped || err == nil && info.Signo != 0
}

// tidyEvery is how often orphans that ended while the command goes on are reaped.
const tidyEvery = time.Second

// sleep waits for the worker, the command or the instant until. The timer is on boottime: poll's own timeout would
// stand still while the machine sleeps.
func (s *supervisor) sleep(until time.Duration) {
	s.reap()
	if s.reaped {
		return
	}
	timeout := tidyEvery
	if s.pidfd < 0 {
		timeout = 20 * time.Millisecond // nothing to poll for the command's end
	}
	if until != never {
		at := unix.NsecToTimespec(max(int64(until), 1))
		_ = unix.TimerfdSettime(s.timer, unix.TFD_TIMER_ABSTIME, &unix.ItimerSpec{Value: at}, nil)
	}
	in := int16(unix.POLLIN)
	poll(timeout, unix.PollFd{Fd: socketFD, Events: in}, unix.PollFd{Fd: int32(s.timer), Events: in}, unix.PollFd{Fd: int32(s.pidfd), Events: in})
}

// poll returns when something is ready, after timeout (negative: none), or for no reason.
func poll(timeout time.Duration, fds ...unix.PollFd) {
	ms := -1
	if timeout >= 0 {
		ms = int(timeout.Milliseconds())
	}
	_, _ = unix.Poll(fds, ms)
}

// report is the last word. Without a worker to hear it, what the worker would have tidied up is left to this process.
func (s *supervisor) report(r report) {
	_, err := unix.SendmsgN(socketFD, r.encode(), nil, nil, unix.MSG_NOSIGNAL)
	if err != nil && s.spec.scratch != "" {
		removeAll(s.spec.scratch)
	}
}

// closeOthers closes what the worker passed on without knowing (sockets of socket activation, say), and keeps the rest
// from the command.
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
