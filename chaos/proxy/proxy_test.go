package proxy_test

import (
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/carillon-run/carillon/chaos/proxy"
)

// hang is the time after which a test that waits for something gives up. It judges nothing.
const hang = time.Minute

// peer is one end of a connection.
type peer struct {
	t *testing.T
	net.Conn
}

func (p peer) says(words string) {
	p.t.Helper()
	if _, err := io.WriteString(p, words); err != nil {
		p.t.Fatal(err)
	}
}

func (p peer) hears(words string) {
	p.t.Helper()
	b := make([]byte, len(words))
	if _, err := io.ReadFull(p, b); err != nil || string(b) != words {
		p.t.Fatalf("heard %q, %v; want %q", b, err, words)
	}
}

// isReset checks that the connection ends with a reset, without another byte.
func (p peer) isReset() {
	p.t.Helper()
	if n, err := p.Read(make([]byte, 1)); n != 0 || !errors.Is(err, syscall.ECONNRESET) {
		p.t.Fatalf("read %d bytes, %v; want a reset", n, err)
	}
}

// net.Listener of a server; each connection that it accepts is one peer.
func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func accept(t *testing.T, l net.Listener) peer {
	t.Helper()
	_ = l.(*net.TCPListener).SetDeadline(time.Now().Add(hang))
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return limited(t, conn)
}

func dial(t *testing.T, address string) peer {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	return limited(t, conn)
}

func limited(t *testing.T, conn net.Conn) peer {
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(hang))
	return peer{t, conn}
}

// pair opens a proxy and one connection through it, over which both ends have talked.
func pair(t *testing.T) (p *proxy.Proxy, l net.Listener, client, server peer) {
	t.Helper()
	l = listen(t)
	p, err := proxy.Listen(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	client, server = talk(t, p, l)
	return p, l, client, server
}

// talk opens one more connection.
func talk(t *testing.T, p *proxy.Proxy, l net.Listener) (client, server peer) {
	t.Helper()
	client = dial(t, p.Addr())
	server = accept(t, l)
	client.says("hello")
	server.hears("hello")
	server.says("welcome")
	client.hears("welcome")
	return client, server
}

// strikes waits until the fault has struck more often than before.
func strikes(t *testing.T, p *proxy.Proxy, before int) {
	t.Helper()
	for end := time.Now().Add(hang); p.Struck() <= before; {
		if time.Now().After(end) {
			t.Fatal("the fault did not strike")
		}
		runtime.Gosched()
	}
}

func TestAHealthyLinkPassesBytesAndEndsInBothDirections(t *testing.T) {
	_, _, client, server := pair(t)
	client.says(strings.Repeat("a", 1<<20))
	if err := client.Conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(server); err != nil || len(b) != 1<<20 {
		t.Fatalf("the server got %d bytes, %v", len(b), err)
	}
	server.says("the answer comes after the end of the request")
	server.Close()
	if b, err := io.ReadAll(client); err != nil || len(b) != 45 {
		t.Fatalf("the client got %q, %v", b, err)
	}
}

func TestACutLinkLosesEverythingAndHangsUntilItIsHealed(t *testing.T) {
	p, l, client, server := pair(t)
	p.Set(proxy.Cut)
	client.says("lost")
	strikes(t, p, 0)
	server.says("lost too")
	strikes(t, p, 1)
	late := dial(t, p.Addr())
	late.says("is anyone there?")
	p.Heal()
	client.isReset() // neither of the two has heard anything
	server.isReset()
	accept(t, l).hears("is anyone there?")
}

func TestTheEndOfAConnectionDoesNotPassACut(t *testing.T) {
	p, _, client, server := pair(t)
	p.Set(proxy.Cut)
	client.Close()
	strikes(t, p, 0)
	_ = server.SetReadDeadline(time.Now()) // there is nothing to read by now
	if _, err := server.Read(make([]byte, 1)); !errors.Is(err, syscall.EAGAIN) && !isTimeout(err) {
		t.Errorf("the server learned of the end: %v", err)
	}
	_ = server.SetReadDeadline(time.Now().Add(hang))
	p.Heal()
	server.isReset()
}

func isTimeout(err error) bool {
	var e net.Error
	return errors.As(err, &e) && e.Timeout()
}

func TestAPausedLinkDeliversEverythingLate(t *testing.T) {
	p, l, client, server := pair(t)
	p.Set(proxy.Pause)
	client.says("one ")
	server.says("two")
	late := dial(t, p.Addr())
	late.says("three")
	client.says("after the other")
	p.Heal()
	server.hears("one after the other")
	client.hears("two")
	accept(t, l).hears("three")
}

func TestAClosedLinkResetsConnectionsAndRefusesNewOnes(t *testing.T) {
	p, l, client, server := pair(t)
	p.Set(proxy.Closed)
	client.isReset()
	server.isReset()
	if conn, err := net.Dial("tcp", p.Addr()); err == nil {
		limited(t, conn).isReset()
	} else if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("a new connection: %v, want a reset", err)
	}
	p.Heal()
	talk(t, p, l)
}

func TestAResetEndsConnectionsOnce(t *testing.T) {
	p, l, client, server := pair(t)
	p.Set(proxy.Resets)
	client.isReset()
	server.isReset()
	talk(t, p, l)
}

func TestALinkThatLosesRequestsPassesWhatTheServerSays(t *testing.T) {
	p, _, client, server := pair(t)
	p.Set(proxy.NoRequests)
	client.says("lost")
	strikes(t, p, 0)
	server.says("nothing for a while?")
	client.hears("nothing for a while?")
	p.Heal()
	server.isReset()
}

func TestALinkThatLosesAnswersPassesRequests(t *testing.T) {
	p, l, client, server := pair(t)
	p.Set(proxy.NoAnswers)
	client.says("do it")
	server.hears("do it")
	server.says("done")
	strikes(t, p, 0)
	late := dial(t, p.Addr())
	late.says("do it too")
	accept(t, l).hears("do it too")
	p.Heal()
	client.isReset()
}

func TestEveryNthAnswerIsLostAfterTheServerGaveIt(t *testing.T) {
	p, l, client, server := pair(t)
	p.Set(proxy.LostAnswers(2))
	client.says("first")
	server.hears("first")
	server.says("done")
	client.hears("done")
	server.says(", and more of the same answer")
	client.hears(", and more of the same answer")
	client.says("second")
	server.hears("second")
	server.says("done")
	client.isReset()
	p.Heal()
	client, server = talk(t, p, l)
	client.says("third")
	server.hears("third")
}

func TestALateLinkDelaysEachDirection(t *testing.T) {
	const delay = 50 * time.Millisecond
	p, _, client, server := pair(t)
	p.Set(proxy.Late(delay))
	began := time.Now()
	client.says("ping")
	server.hears("ping")
	if took := time.Since(began); took < delay {
		t.Errorf("a request took %s, want at least %s", took, delay)
	}
	server.says("pong")
	client.hears("pong")
	if took := time.Since(began); took < 2*delay {
		t.Errorf("a round trip took %s, want at least %s", took, 2*delay)
	}
	client.says("before the heal")
	p.Heal() // also what is on its way
	server.hears("before the heal")
}

func TestASlowLinkPassesSoManyBytesPerSecond(t *testing.T) {
	p, _, client, server := pair(t)
	p.Set(proxy.Slow(10_000))
	began := time.Now()
	words := strings.Repeat("slow", 500)
	client.says(words)
	server.hears(words)
	if took := time.Since(began); took < 140*time.Millisecond {
		t.Errorf("2000 bytes took %s, want at least 140 ms: three pauses of 50 ms", took)
	}
}

func TestAProxyPassesNewConnectionsOnToAnotherServer(t *testing.T) {
	p, _, client, server := pair(t)
	other := listen(t)
	p.SetTarget(other.Addr().String())
	talk(t, p, other)
	client.says("the old one stays")
	server.hears("the old one stays")
}

func TestAClientCanReachAnyServerThroughOneProxy(t *testing.T) {
	p, err := proxy.ListenAny()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for range 2 {
		l := listen(t)
		conn, err := proxy.DialThrough(t.Context(), p.Addr(), l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		client := limited(t, conn)
		client.says("hello")
		accept(t, l).hears("hello")
	}
	p.Set(proxy.Closed)
}

func TestNothingOfAProxyIsLeftAfterClose(t *testing.T) {
	for _, fault := range []proxy.Fault{
		{}, proxy.Cut, proxy.Pause, proxy.Late(time.Hour), proxy.Slow(1), proxy.NoAnswers, proxy.NoRequests,
	} {
		p, _, client, server := pair(t)
		p.Set(fault)
		client.says("a few words")
		server.says("a few words")
		dial(t, p.Addr())
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
		client.SetDeadline(time.Now().Add(hang))
		if _, err := io.ReadAll(client); fault == proxy.Cut && !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("after Close: %v, want a reset", err)
		}
	}
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	if strings.Contains(string(stacks), "proxy.(*") {
		t.Errorf("goroutines are left:\n%s", stacks)
	}
}
