package executor

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// attempt is a started supervisor, seen from its worker.
type attempt struct {
	process *os.Process
	socket  *os.File
	pipes   []*tailReader
	readers sync.WaitGroup
	grace   time.Duration
	logger  *slog.Logger
	most    int    // how many processes the command can have
	death   string // how the supervisor ended, in case it sent no report
}

// supervisorEnv keeps the supervisor small: one processor, no garbage collection before 16 MiB. The
// supervisor gets no other variables: the worker's environment may hold secrets.
var supervisorEnv = []string{"GOMAXPROCS=1", "GOGC=off", "GOMEMLIMIT=16MiB"}

// start begins an attempt: it starts a supervisor, tells it what to run, and reads what the command prints.
func (c *Command) start(task Task, spec spec) (_ *attempt, err error) {
	a := &attempt{grace: c.config.Grace, logger: c.config.Logger, most: spec.most}
	var theirs []*os.File // the supervisor's ends
	defer func() {
		for _, f := range theirs {
			f.Close()
		}
		if err != nil {
			a.close()
		}
	}()
	stdin, err := payloadFile(task.Job.Payload)
	if err != nil {
		return nil, err
	}
	theirs = append(theirs, stdin)
	for range 2 {
		r, w, err := pipe()
		if err != nil {
			return nil, err
		}
		theirs, a.pipes = append(theirs, w), append(a.pipes, &tailReader{File: r})
	}
	ours, socket, err := socketPair()
	if err != nil {
		return nil, err
	}
	a.socket, theirs = ours, append(theirs, socket)
	files := theirs
	if c.config.Leash != nil {
		files = append(files[:len(files):len(files)], c.config.Leash)
	}
	if err := a.launch(files, task); err != nil {
		return nil, err
	}
	out := &output{task: task, max: c.config.MaxOutput}
	for i, stream := range []string{stdout, stderr} {
		a.readers.Go(func() { out.copy(stream, a.pipes[i]) })
	}
	// An error means that the supervisor is already gone; wait finds that out too.
	_, _ = a.socket.Write(frame(frameSpec, spec.encode()))
	return a, nil
}

// launch starts this program again. /proc/self/exe is the very file that is running, even if an upgrade has
// replaced it since. A separate session keeps the terminal's Ctrl-C from the supervisor.
func (a *attempt) launch(files []*os.File, task Task) (err error) {
	a.process, err = os.StartProcess("/proc/self/exe", []string{supervisorName, task.Run.ID.String()},
		&os.ProcAttr{
			Dir: "", Env: supervisorEnv, Files: files, Sys: &syscall.SysProcAttr{Setsid: true},
		})
	return err
}

// wait returns the supervisor's report when nothing of the attempt is left. It returns a zero report if the
// supervisor died.
func (a *attempt) wait(ctx context.Context, task Task, s *scratch) report {
	tending, done := context.WithCancel(ctx)
	ended := make(chan struct{})
	var helpers sync.WaitGroup
	helpers.Go(func() { a.tend(ctx, ended, task.Lease) })
	helpers.Go(func() { s.watch(tending, task) })
	r := a.listen(task)
	state, err := a.process.Wait()
	done()
	close(ended)
	helpers.Wait()
	if err != nil {
		a.death = err.Error()
	} else {
		a.death = state.String()
	}
	return r
}

// listen returns the supervisor's report, or a zero one if there is none. Before that it passes on the
// supervisor's messages: people have to deal with a process that cannot be killed.
func (a *attempt) listen(task Task) (r report) {
	var in []byte
	buf := make([]byte, 512)
	for {
		n, err := a.socket.Read(buf)
		in = append(in, buf[:n]...)
		for {
			kind, body, rest, ok := cutFrame(in)
			if !ok {
				break
			}
			switch kind {
			case frameAlive:
				task.remark("%s: the attempt goes on until that process ends", body)
				a.logger.Error("a process of a command cannot be killed: its run does not end, and may be "+
					"started again beside it",
					"run", task.Run.ID, "process", string(body))
			case frameEnd:
				r = decodeReport(body)
			}
			in = rest
		}
		if err != nil {
			return r
		}
	}
}

// tend passes on each extension of the lease, and the order to stop when ctx ends. It goes on with the lease
// during the grace: a worker that freezes then must not leave the command behind either.
func (a *attempt) tend(ctx context.Context, ended <-chan struct{}, lease *Lease) {
	stop, sent := ctx.Done(), time.Duration(0)
	timer := time.NewTimer(passOnAfter(lease))
	defer timer.Stop()
	for {
		select {
		case <-ended:
			return
		case <-stop:
			stop = nil
			grace := a.grace
			if errors.Is(context.Cause(ctx), ErrLeaseOver) {
				grace = 0
			}
			a.send(frameTime(frameStop, grace))
		case <-timer.C:
			if lease != nil && lease.Until() != sent {
				sent = lease.Until()
				a.send(frameTime(frameLease, sent))
			}
			timer.Reset(passOnAfter(lease))
		}
	}
}

// passOnAfter is how long to wait until the lease is passed on next: a second, less when little of the lease
// is left.
func passOnAfter(lease *Lease) time.Duration {
	if lease == nil {
		return time.Hour
	}
	return min(max((lease.Until()-Boottime())/4, 20*time.Millisecond), time.Second)
}

// send does not wait for a supervisor that a signal has stopped and that therefore does not read: this
// goroutine has more to do.
func (a *attempt) send(b []byte) {
	_ = a.socket.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
	_, _ = a.socket.Write(b)
}

// drain returns when all output has been read and printed.
func (a *attempt) drain() {
	for _, p := range a.pipes {
		p.end()
	}
	a.readers.Wait()
	a.close()
}

func (a *attempt) close() {
	for _, p := range a.pipes {
		p.Close()
	}
	if a.socket != nil {
		a.socket.Close()
	}
}

// tailReader reads a pipe to its end. Once the tree is dead the end must come. If it does not, the command
// has handed its output to a process outside its tree (tmux does that), and the reader does not wait for that
// process.
type tailReader struct {
	*os.File
	ended atomic.Bool
}

const tailWait = 2 * time.Second

func (r *tailReader) Read(b []byte) (int, error) {
	if r.ended.Load() {
		_ = r.SetReadDeadline(time.Now().Add(tailWait))
	}
	return r.File.Read(b)
}

func (r *tailReader) end() {
	r.ended.Store(true)
	_ = r.SetReadDeadline(time.Now().Add(tailWait))
}

// payloadFile is the payload as a file in memory, opened for reading. Unlike a pipe it takes any size at
// once, so no goroutine has to feed a command that does not read.
func payloadFile(payload []byte) (*os.File, error) {
	if len(payload) == 0 {
		return os.Open(os.DevNull)
	}
	fd, err := unix.MemfdCreate("payload", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	f := os.NewFile(uintptr(fd), "payload")
	defer f.Close()
	if _, err := f.Write(payload); err != nil {
		return nil, err
	}
	return os.Open("/proc/self/fd/" + strconv.Itoa(fd))
}

// pipe is a pipe of which only our end is non-blocking: os.Pipe makes both ends non-blocking, and commands do
// not expect that.
func pipe() (r, w *os.File, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, os.NewSyscallError("pipe2", err)
	}
	_ = unix.SetNonblock(fds[0], true)
	return os.NewFile(uintptr(fds[0]), "output"), os.NewFile(uintptr(fds[1]), "output"), nil
}

func socketPair() (ours, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	_ = unix.SetNonblock(fds[0], true)
	return os.NewFile(uintptr(fds[0]), "supervisor"), os.NewFile(uintptr(fds[1]), "supervisor"), nil
}
