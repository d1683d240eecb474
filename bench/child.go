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
	"strings"
	"sync/atomic"
	"time"

	"github.com/carillon-run/carillon/client"
	"github.com/carillon-run/carillon/executor"
	"github.com/carillon-run/carillon/worker"
)

// orders tell a child where its work is.
type orders struct {
	Data, Store   string // of a node
	Server, Token string // of a worker
}

// child is this program, started again for a part of a scenario. It begins when it gets its orders, reports
// all the time how many jobs it has run, and ends when its standard input ends, so never later than its
// parent.
type child struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	ran     atomic.Int64
	emptied chan struct{} // closed when it has seen that no unfinished run is left
	ended   chan struct{}
	said    string // the last line that is for the scenario itself
}

// spawn starts a child and waits until it listens.
func (b *bench) spawn(role string) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	b.spawned++
	cmd := exec.Command(self, "-role", role)
	if b.profile != "" {
		cmd.Args = append(
			cmd.Args, "-cpuprofile", fmt.Sprintf("%s.%s-%s-%d", b.profile, b.scene, role, b.spawned),
		)
	}
	cmd.Stderr = os.Stderr
	c := &child{cmd: cmd, emptied: make(chan struct{}), ended: make(chan struct{})}
	if c.in, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a %s: %w", role, err)
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		return nil, fmt.Errorf("start a %s: %w", role, cmd.Wait())
	}
	go c.listen(lines)
	return c, nil
}

func (c *child) listen(lines *bufio.Scanner) {
	defer close(c.ended)
	for lines.Scan() {
		var n int64
		switch line := lines.Text(); {
		case line == "empty":
			close(c.emptied)
		case strings.HasPrefix(line, "ran "):
			fmt.Sscanf(line, "ran %d", &n)
			c.ran.Store(n)
		default:
			c.said = line
		}
	}
}

func (c *child) tell(what any) error { return json.NewEncoder(c.in).Encode(what) }

// end lets the child finish its work and waits for it.
func (c *child) end() error {
	c.in.Close()
	<-c.ended
	return c.cmd.Wait()
}

// play is the child's side of the conversation.
func play(role string, in io.Reader) error {
	fmt.Println("ready")
	lines := bufio.NewScanner(in)
	if !lines.Scan() {
		return nil // the scenario does not need it after all
	}
	var o orders
	if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
		return err
	}
	switch role {
	case "idle":
		return measureIdle(o)
	case "node":
		return playNode(o, lines)
	case "worker":
		return playWorker(o, lines)
	case "offer":
		return playOffer(o, lines)
	}
	return fmt.Errorf("role: %q is not valid", role)
}

// playNode is a node with a worker inside. After any further line of input it waits for the moment when no
// unfinished run is left.
func playNode(o orders, lines *bufio.Scanner) error {
	cfg := place{data: o.Data, store: o.Store}.config(slots)
	cfg.Listen = loopback
	h, err := open(cfg, nil)
	if err != nil {
		return err
	}
	done := announce(&h.started)
	for lines.Scan() {
		if err := h.settled(context.Background()); err != nil {
			return err
		}
		fmt.Println("empty")
	}
	err = h.stop()
	done()
	return err
}

// playWorker does what `carillon worker` does, with a no-op handler.
func playWorker(o orders, lines *bufio.Scanner) error {
	dispatcher, err := client.NewDispatcher(client.DispatcherConfig{
		Servers: []string{o.Server}, Token: o.Token,
	})
	if err != nil {
		return err
	}
	var started atomic.Int64
	funcs := executor.NewFuncs()
	funcs.Register("bench", func(context.Context, executor.Task) error { started.Add(1); return nil })
	w := worker.New(worker.Config{
		Dispatcher: dispatcher, Name: "bench", Executors: map[string]executor.Executor{"handler": funcs},
		Concurrency: slots, Logger: logger(),
	})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	finished := make(chan error, 1)
	go func() { finished <- w.Run(ctx) }()
	done := announce(&started)
	for lines.Scan() {
	}
	cancel()
	err = <-finished
	done()
	return err
}

// announce prints how many jobs have run whenever the number has grown, and once more at the end.
func announce(started *atomic.Int64) (done func()) {
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		said := int64(0)
		for going := true; going; {
			select {
			case <-tick.C:
			case <-stop:
				going = false
			}
			if n := started.Load(); n != said {
				fmt.Println("ran", n)
				said = n
			}
		}
	}()
	return func() { close(stop); <-stopped }
}

var errChildEnded = errors.New("a process of the scenario ended too early")
