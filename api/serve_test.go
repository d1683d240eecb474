package api_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/api"
)

// pipes is a network inside a synctest bubble.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (p pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}
func (p pipes) Close() error   { close(p.closed); return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (p pipes) dial(context.Context, string, string) (net.Conn, error) {
	near, far := net.Pipe()
	p.conns <- far
	return near, nil
}

// serve puts the house behind a real server with time limits (0: none), and returns a client of it.
func (h *house) serve(limit time.Duration) *http.Client {
	p := pipes{make(chan net.Conn), make(chan struct{})}
	server := &http.Server{Handler: h, WriteTimeout: limit, ReadTimeout: limit}
	stopped := make(chan error)
	go func() { stopped <- server.Serve(p) }()
	transport := &http.Transport{DialContext: p.dial}
	h.t.Cleanup(func() {
		transport.CloseIdleConnections()
		_ = server.Close()
		<-stopped
	})
	return &http.Client{Transport: transport}
}

func (h *house) get(client *http.Client, path string) *http.Response {
	h.t.Helper()
	r, err := http.NewRequest("GET", "http://carillon"+path, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	answer, err := client.Do(r)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = answer.Body.Close() })
	return answer
}

func TestFollowingOutlastsTheServersTimeLimits(t *testing.T) {
	for _, limit := range []time.Duration{0, time.Second} {
		followThroughMinutes(t, limit)
	}
}

func followThroughMinutes(t *testing.T, limit time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, nil)
		client := h.serve(limit)
		run := h.claim(h.submit(echo))
		answer := h.get(client, "/v1/runs/"+run.ID.String()+"/logs?follow=true")
		lines := bufio.NewReader(answer.Body)
		for i := range int64(3) {
			time.Sleep(time.Minute)
			h.print(run, i, "tick")
			if line, err := lines.ReadString('\n'); line != "tick\n" || err != nil {
				t.Fatalf("line %d is %q, %v", i, line, err)
			}
		}
		h.finish(run, carillon.Outcome{Kind: carillon.OutcomeSuccess})
		if rest, err := io.ReadAll(lines); len(rest) > 0 || err != nil {
			t.Errorf("the end is %q, %v", rest, err)
		}
		time.Sleep(time.Minute)
		if again := h.get(client, "/v1/runs/"+run.ID.String()); again.StatusCode != 200 {
			t.Errorf("the next request gets %d", again.StatusCode)
		}
	})
}

func TestAReaderNoticesThatALogBrokeOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, func(c *api.Config) { c.Logs = &flaky{c.Logs, 3} })
		client := h.serve(time.Second)
		run := h.claim(h.submit(echo))
		h.print(run, 0, "a")
		answer := h.get(client, "/v1/runs/"+run.ID.String()+"/logs?follow=true")
		if got, err := io.ReadAll(answer.Body); string(got) != "a\n" || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("read %q, %v", got, err)
		}
	})
}
