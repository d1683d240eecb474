package chaos

import (
	"fmt"
	"os/exec"
	"runtime"
	"sync/atomic"
	"syscall"
)

// Process is a real process for faults. It does not outlive the process that started it.
type Process struct {
	cmd   *exec.Cmd
	ended chan struct{}
	err   error // how it ended
	told  atomic.Bool
}

// launch starts a program from a thread that lives as long as the program does: when the thread that started
// a child ends, the kernel takes that for the end of the parent.
func launch(cmd *exec.Cmd) (*Process, error) {
	p := &Process{cmd: cmd, ended: make(chan struct{})}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			p.err = cmd.Wait()
			close(p.ended)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	return p, nil
}

// Kill ends the process with SIGKILL.
func (p *Process) Kill() {
	p.told.Store(true)
	_ = p.cmd.Process.Kill() // perhaps it is gone already
	<-p.ended
}

// Stop asks the process to drain and end, and waits for that.
func (p *Process) Stop() error {
	p.told.Store(true)
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	<-p.ended
	return p.err
}

// Signal sends any signal.
func (p *Process) Signal(sig syscall.Signal) error { return p.cmd.Process.Signal(sig) }

// Crashed says that the process has ended although the test did not tell it to.
func (p *Process) Crashed() bool {
	select {
	case <-p.ended:
		return !p.told.Load()
	default:
		return false
	}
}
