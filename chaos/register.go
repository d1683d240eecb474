package chaos

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/chaos/check"
	"github.com/carillon-run/carillon/executor"
)

// Register stands for a resource outside of Carillon that job bodies write to. It keeps the highest fence of
// each key and refuses writes with a lower one, as the guarantees advise. It logs every write in order.
type Register struct {
	listener net.Listener

	mu     sync.Mutex
	top    map[int64]int64 // the highest fence of each key
	writes []check.Write
}

// OpenRegister serves a register on a unix socket, until Close.
func OpenRegister(path string) (*Register, error) {
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	r := &Register{listener: l, top: map[int64]int64{}}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return // closed
			}
			go r.serve(conn)
		}
	}()
	return r, nil
}

func (r *Register) Close() error { return r.listener.Close() }

// Writes are all writes so far, in the order in which the register decided about them.
func (r *Register) Writes() []check.Write {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.writes[:len(r.writes):len(r.writes)]
}

func (r *Register) serve(conn net.Conn) {
	defer conn.Close()
	lines := bufio.NewScanner(conn)
	for lines.Scan() {
		var w check.Write
		var run string
		_, err := fmt.Sscan(lines.Text(), &w.Key, &w.Fence, &w.Attempt, &run)
		w.Run, err = parsedRun(run, err)
		if err != nil {
			return
		}
		if _, err := fmt.Fprintln(conn, r.write(w)); err != nil {
			return // the body is gone; its write counts
		}
	}
}

func parsedRun(text string, err error) (carillon.RunID, error) {
	if err != nil {
		return carillon.RunID{}, err
	}
	return carillon.ParseRunID(text)
}

func (r *Register) write(w check.Write) (accepted bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w.Mono = executor.Boottime()
	w.Accepted = w.Fence >= r.top[w.Key]
	if w.Accepted {
		r.top[w.Key] = w.Fence
	}
	r.writes = append(r.writes, w)
	return w.Accepted
}

// errRefused is the error of a body whose write the register refused: another attempt has the run now.
var errRefused = errors.New("the register refused the fence")

// registerClient writes to a register over connections that the bodies of a process share.
type registerClient struct {
	path string // empty: there is no register
	idle chan net.Conn
}

func newRegisterClient(path string) *registerClient {
	return &registerClient{path, make(chan net.Conn, 8)}
}

// write makes one write. A body that cannot reach the register goes on: the trial is over then.
func (c *registerClient) write(ctx context.Context, key int64, l check.Line) error {
	if c.path == "" {
		return nil
	}
	conn, err := c.dial(ctx)
	if err != nil {
		return nil
	}
	// No longer than until the body must stop.
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	_, err = fmt.Fprintln(conn, key, l.Fence, l.Attempt, l.Run)
	answer := ""
	if err == nil {
		answer, err = bufio.NewReader(conn).ReadString('\n')
	}
	if !stop() || err != nil {
		conn.Close()
		return context.Cause(ctx)
	}
	select {
	case c.idle <- conn:
	default:
		conn.Close()
	}
	if strings.TrimSpace(answer) != "true" {
		return errRefused
	}
	return nil
}

func (c *registerClient) dial(ctx context.Context) (net.Conn, error) {
	select {
	case conn := <-c.idle:
		return conn, nil
	default:
		return (&net.Dialer{}).DialContext(ctx, "unix", c.path)
	}
}
