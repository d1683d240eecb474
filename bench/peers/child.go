package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/carillon-run/carillon/bench/peers/peer"
)

// process is a program that ends, with all processes that it started, not later than this program.
type process struct {
	cmd   *exec.Cmd
	ended chan struct{}
}

// launch starts a program from a thread that lives as long as the program does: the kernel takes the end of
// that thread for the end of the parent.
func launch(cmd *exec.Cmd) (*process, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	p := &process{cmd: cmd, ended: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // the last line of its output says how it ended
		}
		close(p.ended)
	}()
	return p, <-started
}

// kill ends the program and the processes that it started.
func (p *process) kill() {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	<-p.ended
}

// child is a scheduler's program: see package peer.
type child struct {
	*process
	hello   peer.Hello
	in      io.WriteCloser
	answers chan peer.Answer
	say     func(format string, args ...any)

	mu   sync.Mutex
	last string // line on its standard error
}

// greeting is how long a program can take to send its hello.
const greeting = 30 * time.Second

// spawn starts a scheduler's program in a place and reads its hello.
func (b *bench) spawn(ctx context.Context, p scheduler, at place) (*child, error) {
	cmd := exec.Command(p.argv[0], p.argv[1:]...)
	cmd.Env = at.env
	c := &child{answers: make(chan peer.Answer), say: b.say}
	var err error
	if c.in, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	// Own pipes: Wait must not close them while there is something to read.
	out, outEnd, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	errs, errsEnd, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdout, cmd.Stderr = outEnd, errsEnd
	c.process, err = launch(cmd)
	outEnd.Close()
	errsEnd.Close()
	if err != nil {
		return nil, errors.Join(err, out.Close(), errs.Close())
	}
	go c.listen(out)
	go c.overhear(errs)
	a, err := c.answer(ctx, "hello", greeting)
	if err == nil && a.Hello == nil {
		err = errors.New("it did not say what it is")
	}
	if err != nil {
		c.kill()
		return nil, err
	}
	c.hello = *a.Hello
	return c, nil
}

func (c *child) listen(out io.ReadCloser) {
	defer out.Close()
	defer close(c.answers)
	for in := json.NewDecoder(out); ; {
		var a peer.Answer
		if err := in.Decode(&a); err != nil {
			if !errors.Is(err, io.EOF) {
				c.overheard("what it answers is not understood: " + err.Error())
			}
			return
		}
		c.answers <- a
	}
}

// overhear shows what the program prints besides its answers.
func (c *child) overhear(errs io.ReadCloser) {
	defer errs.Close()
	lines := bufio.NewScanner(errs)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if line := strings.TrimSpace(lines.Text()); line != "" {
			c.overheard(line)
		}
	}
	_, _ = io.Copy(io.Discard, errs)
}

func (c *child) overheard(line string) {
	c.mu.Lock()
	c.last = line
	c.mu.Unlock()
	c.say("| %.300s", line)
}

// ask sends a command to the program and waits for the answer up to limit; after that it kills the program.
func (c *child) ask(ctx context.Context, command peer.Command, limit time.Duration) (peer.Answer, error) {
	if err := json.NewEncoder(c.in).Encode(command); err != nil {
		return peer.Answer{}, fmt.Errorf("%s: %w", command.Do, c.gone())
	}
	a, err := c.answer(ctx, command.Do, limit)
	switch {
	case err != nil:
		return a, err
	case a.Cannot != "":
		return a, peer.Cannot(a.Cannot)
	case a.Error != "":
		return a, errors.New(a.Error)
	}
	return a, nil
}

func (c *child) answer(ctx context.Context, what string, limit time.Duration) (peer.Answer, error) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case a, ok := <-c.answers:
		if !ok {
			return a, fmt.Errorf("%s: %w", what, c.gone())
		}
		return a, nil
	case <-timer.C:
		c.kill()
		return peer.Answer{}, late{what, limit}
	case <-ctx.Done():
		c.kill()
		return peer.Answer{}, ctx.Err()
	}
}

// late says that something took longer than its limit.
type late struct {
	what  string
	limit time.Duration
}

func (l late) Error() string { return fmt.Sprintf("%s took more than %s", l.what, l.limit) }

// gone is the error of a program that ended too early.
func (c *child) gone() error {
	select {
	case <-c.ended:
	case <-time.After(5 * time.Second):
	}
	time.Sleep(50 * time.Millisecond) // its last lines are still on their way
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Errorf("its process ended: %s", c.last)
}

// end lets the program finish, and kills what is left of it after a while.
func (c *child) end() {
	c.in.Close()
	go func() {
		for range c.answers { // drained: no caller waits for them any more
		}
	}()
	select {
	case <-c.ended:
	case <-time.After(20 * time.Second):
	}
	c.kill()
}
