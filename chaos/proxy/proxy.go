// Package proxy is a TCP proxy for the links between processes. It can cut a link, cut one direction of it,
// delay or slow down what passes, reset connections, and lose answers.
package proxy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"
)

// Proxy is one link. It passes connections on to a server, with the faults that were set.
type Proxy struct {
	listener net.Listener
	ctx      context.Context // ended by Close
	end      context.CancelFunc
	running  sync.WaitGroup

	mu      sync.Mutex // guards the fields below
	target  string     // empty: clients name it, see ListenAny
	fault   Fault
	changed chan struct{} // closed by the next Set
	answers int           // that began since the fault did
	struck  int
	links   map[*link]bool
}

// Listen opens a proxy on a free port of the loopback interface that passes connections on to an address.
func Listen(to string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("open a proxy: %w", err)
	}
	ctx, end := context.WithCancel(context.Background())
	p := &Proxy{
		listener: l, ctx: ctx, end: end, target: to, changed: make(chan struct{}), links: map[*link]bool{},
	}
	p.running.Go(p.accept)
	return p, nil
}

// ListenAny opens a proxy for all connections of one client, to any server: the client connects with
// DialThrough.
func ListenAny() (*Proxy, error) { return Listen("") }

// DialThrough connects to an address through a proxy that ListenAny opened.
func DialThrough(ctx context.Context, proxy, to string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", proxy)
	if err != nil {
		return nil, err
	}
	if _, err := fmt.Fprintln(conn, to); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// Addr is the address at which the proxy listens.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// SetTarget passes new connections on to another address. Those that exist stay where they are.
func (p *Proxy) SetTarget(to string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = to
}

// Set replaces the fault, for existing and new connections, at once.
func (p *Proxy) Set(f Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault, p.answers = f, 0
	close(p.changed)
	p.changed = make(chan struct{})
	for l := range p.links {
		if f.Reset || l.holed(&f) {
			p.strike(l)
		}
	}
}

// Heal ends the fault.
func (p *Proxy) Heal() { p.Set(Fault{}) }

// Struck is how often a fault has lost bytes or an answer, or ended or refused a connection.
func (p *Proxy) Struck() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.struck
}

// Close ends the proxy and all its connections, and returns when nothing of it is left.
func (p *Proxy) Close() error {
	err := p.listener.Close()
	p.end()
	p.mu.Lock()
	for l := range p.links {
		l.reset()
	}
	p.mu.Unlock()
	p.running.Wait()
	return err
}

func (p *Proxy) accept() {
	for {
		conn, err := p.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil { // otherwise the client is gone already, or files are scarce for a moment
			p.running.Go(func() { p.serve(conn.(*net.TCPConn)) })
		}
	}
}

// serve passes one connection on until either side ends it.
func (p *Proxy) serve(client *net.TCPConn) {
	l := &link{proxy: p, gone: make(chan struct{}), client: client}
	p.mu.Lock()
	p.links[l] = true
	p.mu.Unlock()
	defer func() {
		l.close(-1)
		p.mu.Lock()
		delete(p.links, l)
		p.mu.Unlock()
	}()
	if !p.admit(l) {
		return
	}
	to, from, err := p.where(client)
	if err != nil {
		return
	}
	conn, err := (&net.Dialer{}).DialContext(p.ctx, "tcp", to)
	if err != nil {
		l.reset() // to the client this looks like a server that is gone
		return
	}
	if l.connect(conn.(*net.TCPConn)) {
		l.pass(from)
	}
}

// admit waits until the fault lets a new connection pass; false: it refused it.
func (p *Proxy) admit(l *link) bool {
	for p.ctx.Err() == nil {
		p.mu.Lock()
		dial, changed := p.fault.Dial, p.changed
		if dial == DialRefuse {
			p.strike(l)
		}
		p.mu.Unlock()
		switch dial {
		case DialPass:
			return true
		case DialRefuse:
			return false
		}
		select {
		case <-changed:
		case <-l.gone:
			return false
		}
	}
	return false
}

// where is the address that a connection is for, and what else the client has sent.
func (p *Proxy) where(client *net.TCPConn) (to string, rest *bufio.Reader, err error) {
	rest = bufio.NewReaderSize(client, chunkSize)
	p.mu.Lock()
	to = p.target
	p.mu.Unlock()
	if to == "" {
		to, err = rest.ReadString('\n')
	}
	return strings.TrimSpace(to), rest, err
}

// strike resets a connection because of the fault. The caller holds mu.
func (p *Proxy) strike(l *link) {
	p.struck++
	l.reset()
}

// losesAnswer counts an answer that begins, and says whether the fault takes it.
func (p *Proxy) losesAnswer(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answers++
	if p.fault.LoseEvery == 0 || p.answers%p.fault.LoseEvery != 0 {
		return false
	}
	p.strike(l)
	return true
}

// ruling is what becomes of the next bytes of a direction.
type ruling struct {
	lost    bool
	wait    time.Duration   // no byte passes before; then the fault is asked again
	most    int             // so many bytes pass
	takes   time.Duration   // each of them keeps the direction busy for that long
	changed <-chan struct{} // closed when the fault changes
}

const (
	forever = time.Hour             // longer than every fault
	breath  = 50 * time.Millisecond // a slow direction passes as many bytes at a time as it can in this time
)

// rule decides about bytes; the direction is busy until free.
func (p *Proxy) rule(l *link, d direction, c chunk, free time.Time) ruling {
	p.mu.Lock()
	defer p.mu.Unlock()
	way := p.fault.ToServer
	if d == toClient {
		way = p.fault.ToClient
	}
	r := ruling{most: len(c.bytes), changed: p.changed}
	switch {
	case way.Loss == LossDrop:
		p.struck++
		l.hole[d], r.lost = true, true
		return r
	case way.Loss == LossHold:
		r.wait = forever
		return r
	case way.Rate > 0:
		r.most = max(int(float64(way.Rate)*breath.Seconds()), 1)
		r.takes = time.Second / time.Duration(way.Rate)
		r.wait = time.Until(free)
	}
	r.wait = max(r.wait, time.Until(c.at.Add(way.Delay)))
	return r
}
