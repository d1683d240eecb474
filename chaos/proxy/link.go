package proxy

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// direction is the direction of bytes.
type direction int

const (
	toServer direction = iota
	toClient
)

const (
	chunkSize = 32 << 10
	backlog   = 64 // chunks of one direction that can wait; then the sender waits
)

// link is one connection of a client and the connection to the server that belongs to it.
type link struct {
	proxy *Proxy
	gone  chan struct{} // closed when the link is over
	asked atomic.Bool   // the client has sent something since the last answer began
	hole  [2]bool       // by direction: bytes were lost; guarded by the mu of the proxy

	mu     sync.Mutex // guards the fields below
	client *net.TCPConn
	server *net.TCPConn // nil: not connected yet
	over   bool
}

// chunk is some bytes that arrived together, or the end of a direction.
type chunk struct {
	bytes []byte
	at    time.Time
	first bool  // an answer begins
	end   error // not nil: no bytes follow
}

// connect keeps the connection to the server; false: the link was over before.
func (l *link) connect(server *net.TCPConn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		server.Close()
		return false
	}
	l.server = server
	return true
}

// pass carries bytes in both directions until the link is over.
func (l *link) pass(from io.Reader) {
	var both sync.WaitGroup
	both.Go(func() { l.carry(toServer, from, l.server) })
	both.Go(func() { l.carry(toClient, l.server, l.client) })
	both.Wait()
}

// carry reads and writes at the same time: bytes that are delayed must not keep later bytes from arriving.
func (l *link) carry(d direction, from io.Reader, to *net.TCPConn) {
	chunks := make(chan chunk, backlog)
	var reading sync.WaitGroup
	reading.Go(func() { l.read(d, from, chunks) })
	defer reading.Wait()
	var free time.Time
	for more := true; more; {
		select {
		case c := <-chunks:
			more = l.deliver(d, c, to, &free)
		case <-l.gone:
			return
		}
	}
}

// read hands on what arrives, up to the end.
func (l *link) read(d direction, from io.Reader, chunks chan<- chunk) {
	for {
		b := make([]byte, chunkSize)
		n, err := from.Read(b)
		c := chunk{bytes: b[:n], at: time.Now(), end: err}
		switch {
		case n > 0 && d == toServer:
			l.asked.Store(true)
		case n > 0:
			c.first = l.asked.Swap(false)
		}
		select {
		case chunks <- c:
		case <-l.gone:
			return
		}
		if err != nil {
			return
		}
	}
}

// deliver writes a chunk as the fault allows; false: nothing follows. With a rate, the direction is free
// again at a later time.
func (l *link) deliver(d direction, c chunk, to *net.TCPConn, free *time.Time) bool {
	if c.first && l.proxy.losesAnswer(l) {
		return false
	}
	for {
		r := l.proxy.rule(l, d, c, *free)
		switch {
		case r.lost:
			return c.end == nil
		case r.wait > 0:
			select {
			case <-time.After(r.wait):
			case <-r.changed:
			case <-l.gone:
				return false
			}
			continue
		case len(c.bytes) == 0:
			return l.finish(c.end, to)
		}
		piece := c.bytes[:min(len(c.bytes), r.most)]
		if _, err := to.Write(piece); err != nil {
			l.reset()
			return false
		}
		*free = time.Now().Add(r.takes * time.Duration(len(piece)))
		c.bytes = c.bytes[len(piece):]
		if len(c.bytes) == 0 && c.end == nil {
			return true
		}
	}
}

// finish passes on how a direction ended. It returns false: nothing follows.
func (l *link) finish(end error, to *net.TCPConn) bool {
	if !errors.Is(end, io.EOF) || to.CloseWrite() != nil {
		l.reset()
	}
	return false
}

// holed says that the link has lost bytes of a direction in which bytes pass under a fault.
func (l *link) holed(f *Fault) bool {
	return l.hole[toServer] && f.ToServer.Loss != LossDrop || l.hole[toClient] && f.ToClient.Loss != LossDrop
}

// reset ends the link; both sides get a reset.
func (l *link) reset() { l.close(0) }

// close ends the link. With a linger of 0 it is a reset; -1 is the usual end.
func (l *link) close(linger int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return
	}
	l.over = true
	close(l.gone)
	for _, conn := range []*net.TCPConn{l.client, l.server} {
		if conn != nil {
			_ = conn.SetLinger(linger)
			_ = conn.Close()
		}
	}
}
