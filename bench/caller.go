package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// caller sends one request after the other over a connection that it keeps. None of its steps waits for the
// server. It uses sockets that the Go runtime does not know: see offer.
type caller struct {
	server  netip.AddrPort
	request []byte
	socket  int // 0: none

	began  time.Time
	unsent []byte
	answer []byte // what has come of it
	failed error
}

// begin is the start of a request.
func (c *caller) begin(now time.Time) {
	c.began, c.unsent, c.answer, c.failed = now, c.request, c.answer[:0], nil
	if c.socket == 0 {
		c.failed = c.dial()
	}
}

func (c *caller) dial() (err error) {
	if !c.server.Addr().Is4() {
		return fmt.Errorf("callers dial IPv4 addresses, given %s", c.server)
	}
	if c.socket, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0); err != nil {
		return err
	}
	to := &unix.SockaddrInet4{Addr: c.server.Addr().As4(), Port: int(c.server.Port())}
	return errors.Join(unix.Connect(c.socket, to), unix.SetNonblock(c.socket, true))
}

// proceed sends and reads what it can, and says whether the request has ended: with the status of its answer,
// or with none if the connection broke or no answer came in time.
func (c *caller) proceed(now time.Time) (status string, done bool) {
	if c.failed == nil && len(c.unsent) > 0 {
		n, err := unix.Write(c.socket, c.unsent)
		c.unsent, c.failed = c.unsent[max(n, 0):], unlessLater(err)
	}
	if c.failed == nil && len(c.unsent) == 0 {
		c.failed = c.receive()
	}
	if c.failed != nil || now.Sub(c.began) > patience {
		c.close()
		return "", true
	}
	status, closes, done := readAnswer(c.answer)
	if closes {
		c.close()
	}
	return status, done
}

// received is where callers read to: one goroutine plays all of them.
var received [64 << 10]byte

func (c *caller) receive() error {
	n, err := unix.Read(c.socket, received[:])
	if n == 0 && err == nil {
		return io.ErrUnexpectedEOF
	}
	c.answer = append(c.answer, received[:max(n, 0)]...)
	return unlessLater(err)
}

// unlessLater drops errors that only say that the call would have had to wait.
func unlessLater(err error) error {
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
		return nil
	}
	return err
}

func (c *caller) close() {
	if c.socket != 0 {
		_ = unix.Close(c.socket)
		c.socket = 0
	}
}

// readAnswer says whether the answer is complete, its status, and whether the server closes the connection.
func readAnswer(answer []byte) (status string, closes, done bool) {
	head, body, whole := bytes.Cut(answer, []byte("\r\n\r\n"))
	if !whole || len(head) < 12 {
		return "", false, false
	}
	for line := range bytes.Lines(head) {
		name, value, _ := bytes.Cut(bytes.TrimSpace(line), []byte(": "))
		switch string(bytes.ToLower(name)) {
		case "content-length":
			length, err := strconv.Atoi(string(value))
			done = err == nil && len(body) >= length
		case "transfer-encoding":
			done = bytes.HasSuffix(body, []byte("\r\n0\r\n\r\n"))
		case "connection":
			closes = string(value) == "close"
		}
	}
	return string(head[9:12]), closes && done, done
}
