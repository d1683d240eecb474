package simulate

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"
)

// process is a node or a worker: it can be frozen and killed.
type process struct {
	name   string
	serves string // the only namespace whose runs it may perform; empty: all

	mu     sync.Mutex
	thawed chan struct{} // closed while it is not frozen
	frozen time.Time     // since when; zero: it is not
	thaws  time.Time     // when it last thawed
	killed chan struct{} // closed when it is dead
}

// inside is a label that the worker inside a node has, and that some jobs need.
func (p *process) inside() string {
	return strconv.FormatBool(strings.HasPrefix(p.name, "node_"))
}

var errKilled = errors.New("the process is dead")

func newProcess(name string) *process {
	p := &process{name: name, thawed: make(chan struct{}), killed: make(chan struct{})}
	close(p.thawed)
	return p
}

// pass waits while the process is frozen.
func (p *process) pass(ctx context.Context) error {
	for {
		p.mu.Lock()
		thawed := p.thawed
		p.mu.Unlock()
		select {
		case <-p.killed:
			return errKilled
		default:
		}
		select {
		case <-thawed:
			return nil
		default:
		}
		select {
		case <-thawed:
		case <-p.killed:
			return errKilled
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (p *process) freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.thawed:
		p.thawed, p.frozen = make(chan struct{}), time.Now()
	default:
	}
}

func (p *process) thaw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.thawed:
	default:
		close(p.thawed)
		p.frozen, p.thaws = time.Time{}, time.Now()
	}
}

// kill ends the process and returns when it last did anything.
func (p *process) kill() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.killed:
	default:
		close(p.killed)
	}
	if !p.frozen.IsZero() {
		return p.frozen
	}
	return time.Now()
}

// lastThaw is when the process last thawed; zero: never.
func (p *process) lastThaw() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.thaws
}

func (p *process) dead() bool {
	select {
	case <-p.killed:
		return true
	default:
		return false
	}
}
