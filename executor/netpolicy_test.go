package executor

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
)

// refused and reachable are the corpus: one address per class, and one on each side of every edge.
var refused = strings.Fields(`
	0.0.0.0 0.0.0.1 0.255.255.255
	10.0.0.0 10.1.2.3 10.255.255.255
	100.64.0.0 100.100.100.200 100.127.255.255
	127.0.0.0 127.0.0.1 127.1.2.3 127.255.255.255
	168.63.129.16
	169.254.0.0 169.254.169.254 169.254.170.2 169.254.255.255
	172.16.0.0 172.17.0.1 172.31.255.255
	192.0.0.0 192.0.0.192 192.0.0.255 192.0.2.1 192.31.196.1 192.52.193.1 192.88.99.1
	192.168.0.0 192.168.1.1 192.168.255.255 192.175.48.1
	198.18.0.0 198.19.255.255 198.51.100.7 203.0.113.7
	224.0.0.0 224.0.0.251 239.255.255.250 239.255.255.255
	240.0.0.0 250.1.1.1 255.255.255.254 255.255.255.255
	:: ::1 ::2 ::7f00:1 ::127.0.0.1 ::8.8.8.8
	::ffff:127.0.0.1 ::ffff:10.0.0.1 ::ffff:169.254.169.254 ::ffff:8.8.8.8 ::ffff:0:127.0.0.1
	64:ff9b::7f00:1 64:ff9b::a9fe:a9fe 64:ff9b::8.8.8.8 64:ff9b:1::1 64:ff9b:1:ffff::1
	100::1 2001::1 2001:0:4136:e378:8000:63bf:3fff:fdd2 2001:10::1 2001:20::1 2001:1ff:ffff::1
	2001:db8::1 2002:7f00:1::1 2002:a9fe:a9fe:: 2002:808:808::1 2620:4f:8000::1 3fff::1 3fff:fff::1
	4000::1 5f00::1 8000::1 fc00::1 fd00:ec2::254 fd12:3456:789a::1 fdff:ffff::1
	fe80::1 fe80::1%eth0 fe80::a9fe:a9fe febf::1 fec0::1 feff::1
	ff00::1 ff02::1 ff02::1%lo ff05::1:3 ff0e::1 ffff::1 ::1%lo`)

var reachable = strings.Fields(`
	1.0.0.0 1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.0 93.184.216.34 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.0
	168.63.129.15 168.63.129.17 169.253.255.255 169.255.0.0 172.15.255.255 172.32.0.0 192.0.1.0 192.0.3.0 192.167.255.255
	192.169.0.0 198.17.255.255 198.20.0.0 198.51.99.255 198.51.101.0 203.0.112.255 203.0.114.0 223.255.255.255
	2000::1 2001:200::1 2001:4860:4860::8888 2001:db7::1 2001:db9::1 2003::1 2606:4700:4700::1111 2a00:1450::1 3ffe::1`)

func TestTheGuardKnowsItsAddresses(t *testing.T) {
	t.Logf("%d refused, %d reachable", len(refused), len(reachable))
	for _, s := range refused {
		if (guard{}).check(netip.MustParseAddr(s)) == nil {
			t.Errorf("%s is let through", s)
		}
	}
	for _, s := range reachable {
		if err := (guard{}).check(netip.MustParseAddr(s)); err != nil {
			t.Error(err)
		}
	}
}

func TestTheGuardAllowsWhatTheOperatorAllows(t *testing.T) {
	g := guard{[]netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("fe80::/10")}}
	for address, ok := range map[string]bool{
		"10.1.2.3:80": true, "[::ffff:10.1.2.3]:80": true, "10.2.2.3:80": false, "[fe80::1%eth0]:80": true,
		"[fd00::1]:80": false,
		"nonsense":     false, "localhost:80": false, "/var/run/docker.sock": false,
	} {
		if err := g.control("tcp", address, nil); (err == nil) != ok {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// FuzzGuard compares with package net: the guard refuses every address that net calls not global, or private.
func FuzzGuard(f *testing.F) {
	for _, s := range append(refused, reachable...) {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		addr, err := netip.ParseAddr(s)
		if err != nil {
			_ = guard{}.control("tcp", s, nil)
			return
		}
		let := guard{}.check(addr) == nil
		v4 := addr.Unmap()
		if special := !v4.IsGlobalUnicast() || v4.IsPrivate() || v4.IsLoopback() ||
			v4.IsLinkLocalUnicast(); let && special {
			t.Fatalf("%s is let through", addr)
		}
		if let && addr.Is6() && netip.MustParsePrefix("2000::/3").Contains(addr) == false {
			t.Fatalf("%s is let through", addr)
		}
		if all := (guard{[]netip.Prefix{netip.PrefixFrom(addr.WithZone(""), addr.BitLen())}}); all.check(
			addr,
		) != nil {
			t.Fatalf("%s is refused though it is allowed", addr)
		}
	})
}

// names answers every DNS question for an IPv4 address with its next answer; the last answer repeats.
type names struct {
	answers []netip.Addr
	asked   atomic.Int32
}

func (n *names) resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe() // not a packet connection: each message has its length in front
		go n.serve(theirs)
		return ours, nil
	}}
}

func (n *names) serve(conn net.Conn) {
	defer conn.Close()
	buf := make([]byte, 1024)
	read, err := conn.Read(buf[:2])
	if err != nil || read != 2 {
		return
	}
	read, err = conn.Read(buf)
	if err != nil {
		return
	}
	question := buf[12:read]
	end := 0
	for end < len(question) && question[end] != 0 {
		end += int(question[end]) + 1
	}
	question = question[:end+5]
	reply := append([]byte{buf[0], buf[1], 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, question...)
	if question[end+2] == 1 { // type A
		i := min(int(n.asked.Add(1)), len(n.answers)) - 1
		reply[7] = 1
		reply = append(reply, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4)
		reply = append(reply, n.answers[i].AsSlice()...)
	}
	_, _ = conn.Write(append([]byte{byte(len(reply) >> 8), byte(len(reply))}, reply...))
}

// serverAt serves on an address of 127/8 and counts connections and requests.
func serverAt(t *testing.T, address string) (port string, visits *atomic.Int32) {
	t.Helper()
	visits = &atomic.Int32{}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(
		func(w http.ResponseWriter, _ *http.Request) { visits.Add(1) },
	))
	server.Listener.Close()
	server.Listener = listener
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			visits.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	_, port, _ = net.SplitHostPort(listener.Addr().String())
	return port, visits
}

func TestNoWayOfWritingAnAddressGetsPastTheGuard(t *testing.T) {
	t.Parallel()
	port, visits := serverAt(t, "127.0.0.1:0")
	loopback := &names{answers: []netip.Addr{netip.MustParseAddr("127.0.0.1")}} // the attacker's resolver
	h := NewHTTP(HTTPConfig{resolver: loopback.resolver()})
	for _, host := range strings.Fields(`
		127.0.0.1 127.1 127.0.1 2130706433 0x7f000001 0x7f.0.0.1 0177.0.0.1 017700000001 127.0.0.1. 127.000.000.001
		0 0.0.0.0 0x0 00 [::] [::1] [0:0:0:0:0:0:0:1] [::ffff:127.0.0.1] [::ffff:7f00:1] [::127.0.0.1] [0:0:0:0:0:ffff:127.0.0.1]
		[::1%25lo] [fe80::1%25lo] [64:ff9b::7f00:1] [2002:7f00:1::] localhost LOCALHOST localhost. localhost.localdomain
		ip6-localhost a.example 127.0.0.1.nip.io localtest.me ①②⑦.⓪.⓪.① 127。0。0。1 ｌｏｃａｌｈｏｓｔ xn--example-9ua
		169.254.169.254 metadata.google.internal 2852039166 0xA9FEA9FE 169.254.43518 100.100.100.200 [fd00:ec2::254] 10.0.0.1
		172.17.0.1 192.168.0.1 255.255.255.255 224.0.0.1 [ff02::1] [fc00::1] %6c%6f%63%61%6c%68%6f%73%74 127.0.0.1%2f
		example.com@127.0.0.1 127.0.0.1:80@127.0.0.1 example.com%23@127.0.0.1`) {
		task, _ := newTask(carillon.Target{
			HTTP: &carillon.HTTP{Method: "GET", URL: "http://" + host + ":" + port + "/"},
		})
		ctx, cancel := context.WithTimeoutCause(context.Background(), 10*time.Second, ErrTimeout)
		o := h.Execute(ctx, task)
		cancel()
		if o.Kind != carillon.OutcomeFatal && !strings.Contains(o.Reason, "no such host") {
			t.Errorf("%s: %+v", host, o)
		}
	}
	if n := visits.Load(); n > 0 {
		t.Errorf("the server had %d visits", n)
	}
}

func TestANameThatChangesItsAddressIsCheckedAtEveryDial(t *testing.T) {
	t.Parallel()
	port, good := serverAt(t, "127.0.0.2:0")
	_, bad := serverAt(t, "127.0.0.3:"+port) // the same port: only the address differs
	rebinding := &names{
		answers: []netip.Addr{netip.MustParseAddr("127.0.0.2"), netip.MustParseAddr("127.0.0.3")},
	}
	h := NewHTTP(HTTPConfig{
		Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")}, resolver: rebinding.resolver(),
	})
	task, _ := newTask(carillon.Target{
		HTTP: &carillon.HTTP{Method: "POST", URL: "http://rebind.example:" + port},
	})
	same(t, h.Execute(context.Background(), task), carillon.Outcome{Kind: carillon.OutcomeSuccess})
	h.pooled.CloseIdleConnections()
	o := h.Execute(context.Background(), task)
	if o.Kind != carillon.OutcomeFatal || !strings.HasPrefix(o.Reason, "127.0.0.3 is a loopback address") {
		t.Errorf("%+v", o)
	}
	if good.Load() == 0 || bad.Load() > 0 {
		t.Errorf("%d visits where it may go, %d where not", good.Load(), bad.Load())
	}
}

func TestARefusalTellsTheOperatorWhatToDo(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"http://10.1.2.3/":       "10.1.2.3 is a private address, which HTTP jobs may not reach; an operator can allow it with --http-allow 10.0.0.0/8",
		"http://169.254.169.254": "169.254.169.254 is a link-local address, which HTTP jobs may not reach; an operator can allow it with --http-allow 169.254.169.254/32",
		"http://[::1]:8080/":     "::1 is a loopback address, which HTTP jobs may not reach; an operator can allow it with --http-allow ::1/128",
	} {
		task, r := newTask(carillon.Target{HTTP: &carillon.HTTP{Method: "POST", URL: url}})
		same(t, NewHTTP(HTTPConfig{}).Execute(context.Background(), task), carillon.Outcome{
			Kind: carillon.OutcomeFatal, Reason: want,
		})
		if got := r.output(); got != fmt.Sprintf("carillon: POST %s: %s", url, want) {
			t.Error(got)
		}
	}
}
