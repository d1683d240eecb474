package api

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// Refuser answers submits that are refused because of overload, in place of net/http. Under ten times the
// load that a node can take, nine of ten requests are refused, and net/http takes most of the time of a
// refusal. When the API refuses a submit, it passes the connection to the Refuser. The Refuser reads the next
// requests of the caller. As long as they are submits that are refused too, it answers them. At the first
// request that is anything else, it gives the connection back: the http.Server of the API must also serve the
// Refuser, which is a listener that returns such connections.
//
// The Refuser passes by every handler around the API, so it is only for a server whose handler is the API.
type Refuser struct {
	returned chan net.Conn
	closed   chan struct{}
	ended    chan struct{} // closed when it is closed, and has no connection any more

	mu    sync.Mutex
	held  int               // connections that the Refuser has
	conns map[net.Conn]bool // those that it waits for; nil: it is closed
}

// NewRefuser returns a Refuser for one API.
func NewRefuser() *Refuser {
	return &Refuser{
		returned: make(chan net.Conn), closed: make(chan struct{}), ended: make(chan struct{}),
		conns: map[net.Conn]bool{},
	}
}

// Accept implements net.Listener.
func (r *Refuser) Accept() (net.Conn, error) {
	select {
	case conn := <-r.returned:
		return conn, nil
	case <-r.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener. The Refuser closes its connections. Those whose request has begun to come
// are answered first: see Wait.
func (r *Refuser) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.conns == nil {
		return nil
	}
	close(r.closed)
	for conn := range r.conns {
		_ = conn.SetReadDeadline(longAgo)
	}
	r.conns = nil
	if r.held == 0 {
		close(r.ended)
	}
	return nil
}

// Wait waits until a Refuser that is closed has no connection any more, or until ctx ends.
// http.Server.Shutdown does not know these connections.
func (r *Refuser) Wait(ctx context.Context) error {
	select {
	case <-r.ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// hold counts a connection that the Refuser takes, or with -1 one that it leaves.
func (r *Refuser) hold(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held += n; r.held == 0 && r.conns == nil {
		close(r.ended)
	}
}

var longAgo = time.Unix(1, 0)

// Addr implements net.Listener.
func (r *Refuser) Addr() net.Addr { return refuserAddr{} }

type refuserAddr struct{}

func (refuserAddr) Network() string { return "refuser" }
func (refuserAddr) String() string  { return "refuser" }

// add says whether the Refuser may wait for the next request of a connection: it is not closed.
func (r *Refuser) add(conn net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.conns == nil {
		return false
	}
	r.conns[conn] = true
	// With mu held, so that it does not replace the deadline that Close sets.
	return conn.SetReadDeadline(time.Now().Add(refuserIdle)) == nil
}

func (r *Refuser) remove(conn net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.conns, conn)
}

// giveBack returns a connection to the http.Server, with what was read and not used.
func (r *Refuser) giveBack(conn net.Conn, unused []byte) {
	_ = conn.SetDeadline(time.Time{})
	select {
	case r.returned <- &givenBack{conn, bytes.Clone(unused)}:
	case <-r.closed:
		conn.Close()
	}
}

// givenBack is a connection that first reads what the Refuser did not use.
type givenBack struct {
	net.Conn
	unused []byte
}

func (c *givenBack) Read(b []byte) (int, error) {
	if len(c.unused) == 0 {
		return c.Conn.Read(b)
	}
	n := copy(b, c.unused)
	if c.unused = c.unused[n:]; len(c.unused) == 0 {
		c.unused = nil
	}
	return n, nil
}

// CloseWrite lets net/http end its side first, as it does with a connection of its own.
func (c *givenBack) CloseWrite() error { return closeWrite(c.Conn) }

func closeWrite(conn net.Conn) error {
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// How long the Refuser waits for the next request of a connection, and for its answer to be taken: as long as
// the http.Server of a node.
const (
	refuserIdle  = 2 * time.Minute
	refuserWrite = time.Minute
)

// takeOver passes the connection of a refused request to the Refuser, and returns when the Refuser has
// finished with it. It returns false if there is no Refuser, or net/http does not hand the connection over:
// then net/http must answer. The body was read. With a debug log every request is logged, which only
// net/http's way does.
func (s *server) takeOver(w http.ResponseWriter, r *http.Request, after time.Duration) bool {
	if s.Refuser == nil || r.Close || !plainRead(r) || s.Logger.Enabled(r.Context(), slog.LevelDebug) {
		return false
	}
	s.Refuser.hold(1) // before net/http forgets the connection
	defer s.Refuser.hold(-1)
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return false
	}
	if was, ok := conn.(*givenBack); ok && len(was.unused) == 0 {
		conn = was.Conn
	}
	var unused []byte
	back := false
	defer func() { // also after a panic: net/http has forgotten the connection
		if !back {
			conn.Close()
		}
	}()
	unused, back = s.refuseAll(conn, buffered.Reader, after)
	if back {
		s.Refuser.giveBack(conn, unused)
	}
	return true
}

// refuseAll answers the request that was refused, and the next ones as long as they are refused too. If it
// ends with another request, it returns what it has read of that one.
func (s *server) refuseAll(
	conn net.Conn, in *bufio.Reader, after time.Duration,
) (unused []byte, ok bool) {
	defer s.Refuser.remove(conn)
	answer := make([]byte, 0, 1<<10)
	for {
		if !writeRefusal(conn, after, true, answer) || !s.Refuser.add(conn) {
			return nil, false
		}
		if in.Buffered() == 0 {
			in.Reset(conn) // not through net/http
		}
		head, err := nextHead(in)
		if err != nil {
			return nil, false
		}
		request, refused := plainSubmit(head)
		if refused {
			after, refused = s.refuses(request)
		}
		if !refused {
			unused, _ = in.Peek(in.Buffered())
			return unused, true
		}
		_, _ = in.Discard(len(head))
		if !skipBody(conn, in, request.length) {
			if writeRefusal(conn, after, false, answer) {
				linger(conn)
			}
			return nil, false
		}
	}
}

// writeRefusal has a time limit of its own: the Refuser can have waited for the request until its deadline.
func writeRefusal(conn net.Conn, after time.Duration, keep bool, buffer []byte) bool {
	now := time.Now()
	_ = conn.SetWriteDeadline(now.Add(refuserWrite))
	_, err := conn.Write(appendRefusal(buffer[:0], after, keep, now))
	return err == nil
}

// linger reads what still comes for a moment, so that a reset does not overtake the answer.
func linger(conn net.Conn) {
	_ = closeWrite(conn)
	_ = conn.SetReadDeadline(time.Now().Add(unreadGrace))
	_, _ = io.Copy(io.Discard, io.LimitReader(conn, largeBody))
}

// refuses says whether a submit is refused now. One that is not takes nothing yet: net/http reads it again.
func (s *server) refuses(request plainRequest) (after time.Duration, refused bool) {
	p := submitPart(request.batch, request.length)
	if after, refused = s.take(p); !refused {
		s.give(p)
	}
	return after, refused
}

// nextHead waits for the next request, and returns its head with the empty line behind it. It returns nil as
// soon as the request cannot be a plain submit: net/http can have an answer to it before its head ends.
func nextHead(in *bufio.Reader) (head []byte, err error) {
	for {
		got, _ := in.Peek(in.Buffered())
		// As net/http does: some callers send an empty line behind the body of a POST.
		if n := len(got) - len(bytes.TrimLeft(got, "\r\n")); n > 0 {
			_, _ = in.Discard(n)
			continue
		}
		if end := bytes.Index(got, endOfHead); end >= 0 {
			return got[:end+len(endOfHead)], nil
		}
		if len(got) == in.Size() || !plainSoFar(got) {
			return nil, nil
		}
		if _, err := in.Peek(len(got) + 1); err != nil {
			return nil, err
		}
	}
}

// plainSoFar says whether a head that begins so can be that of a plain submit. Its lines end with CR LF:
// net/http also takes LF, and would see the end of a head where the Refuser waits for more.
func plainSoFar(head []byte) bool {
	const start = "POST /v1/jobs"
	n := min(len(head), len(start))
	return string(head[:n]) == start[:n] &&
		bytes.Count(head, []byte("\n")) == bytes.Count(head, []byte("\r\n"))
}

var endOfHead = []byte("\r\n\r\n")

// skipBody reads the body of a refused request, and throws it away.
func skipBody(conn net.Conn, in *bufio.Reader, length int64) bool {
	n, _ := in.Discard(int(min(length, int64(in.Buffered()))))
	left := int(length) - n
	if left == 0 {
		return true
	}
	_ = conn.SetReadDeadline(time.Now().Add(unreadGrace))
	buffer := skipped.Get().(*[largeBody]byte)
	defer skipped.Put(buffer)
	for left > 0 {
		n, err := conn.Read(buffer[:min(left, largeBody)])
		if left -= n; err != nil {
			return left == 0
		}
	}
	return true
}
