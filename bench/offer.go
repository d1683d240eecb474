package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/wire"
)

// offering tells a child how much to submit over HTTP.
type offering struct {
	Jobs    int           // in each request
	Callers int           // each with one connection and one request at a time
	Rate    float64       // jobs a second, whatever comes back; 0: each caller goes on when it is answered
	For     time.Duration // how long
}

// offered is what became of it. Requests that no caller was free for in time are not sent, and not counted.
type offered struct {
	Sent, Accepted, Refused int64 // requests
	Silent                  int64 // requests without an answer in patience, or whose connection broke
	P99                     time.Duration
	Other                   string // an answer that is none of these
}

// patience is how long a caller waits for an answer.
const patience = 10 * time.Second

// playOffer submits the same request again and again. It writes bytes to the connection and looks only at the
// status of the answer: a client library would take the processor from the server that is measured.
func playOffer(o orders, lines *bufio.Scanner) error {
	for lines.Scan() {
		var what offering
		if err := json.Unmarshal(lines.Bytes(), &what); err != nil {
			return err
		}
		got, err := offer(o, what)
		if err != nil {
			return err
		}
		text, err := json.Marshal(got)
		if err != nil {
			return err
		}
		fmt.Println(string(text))
		fmt.Println("empty")
	}
	return nil
}

func offer(o orders, what offering) (offered, error) {
	at, err := url.Parse(o.Server)
	if err != nil {
		return offered{}, err
	}
	request, err := batchRequest(o.Token, at.Host, what.Jobs)
	if err != nil {
		return offered{}, err
	}
	var all offered
	var mu sync.Mutex
	var took []time.Duration
	var callers sync.WaitGroup
	var next atomic.Int64 // the number of the next request
	start := time.Now()
	for range what.Callers {
		callers.Go(func() {
			c := caller{host: at.Host, request: request}
			for {
				due := start
				if what.Rate > 0 {
					jobs := float64(next.Add(1) * int64(what.Jobs))
					due = start.Add(time.Duration(jobs / what.Rate * float64(time.Second)))
				}
				time.Sleep(time.Until(due))
				if time.Since(start) >= what.For {
					break
				}
				if what.Rate > 0 && time.Since(due) > time.Second {
					continue
				}
				c.call()
			}
			c.close()
			mu.Lock()
			defer mu.Unlock()
			all.Sent, all.Accepted = all.Sent+c.got.Sent, all.Accepted+c.got.Accepted
			all.Refused, all.Silent = all.Refused+c.got.Refused, all.Silent+c.got.Silent
			all.Other = all.Other + c.got.Other
			took = append(took, c.took...)
		})
	}
	callers.Wait()
	all.P99 = quantile(took, 0.99)
	return all, nil
}

func batchRequest(token, host string, jobs int) ([]byte, error) {
	def := definition(carillon.Schedule{})
	one, err := wire.MarshalDefinition(&def)
	if err != nil {
		return nil, err
	}
	body := `{"jobs":[` + strings.Repeat(string(one)+",", jobs-1) + string(one) + `]}`
	var b bytes.Buffer
	fmt.Fprintf(&b, "POST /v1/jobs/batch HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", host, token, len(body), body)
	return b.Bytes(), nil
}

// caller sends one request after the other over a connection that it keeps.
type caller struct {
	host    string
	request []byte
	conn    net.Conn
	answers *bufio.Reader
	got     offered
	took    []time.Duration // of accepted requests
}

func (c *caller) call() {
	begin := time.Now()
	c.got.Sent++
	status, err := c.exchange()
	switch {
	case err != nil:
		c.got.Silent++
		c.close()
	case status == "201":
		c.got.Accepted++
		c.took = append(c.took, time.Since(begin))
	case status == "429":
		c.got.Refused++
	default:
		c.got.Other = status
	}
}

// exchange sends the request and returns the status of its answer.
func (c *caller) exchange() (status string, err error) {
	if c.conn == nil {
		if c.conn, err = net.DialTimeout("tcp", c.host, patience); err != nil {
			return "", err
		}
		c.answers = bufio.NewReaderSize(c.conn, 64<<10)
	}
	_ = c.conn.SetDeadline(time.Now().Add(patience))
	if _, err := c.conn.Write(c.request); err != nil {
		return "", err
	}
	first, err := c.answers.ReadString('\n')
	if err != nil || len(first) < 12 {
		return "", fmt.Errorf("read %q: %w", first, err)
	}
	length, chunked, closes := 0, false, false
	for {
		line, err := c.answers.ReadString('\n')
		if err != nil {
			return "", err
		}
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch strings.ToLower(name) {
		case "":
			if chunked {
				err = c.skipChunks()
			} else {
				_, err = c.answers.Discard(length)
			}
			if closes {
				c.close()
			}
			return first[9:12], err
		case "content-length":
			length, _ = strconv.Atoi(value)
		case "transfer-encoding":
			chunked = true
		case "connection":
			closes = value == "close"
		}
	}
}

func (c *caller) skipChunks() error {
	for {
		line, err := c.answers.ReadString('\n')
		if err != nil {
			return err
		}
		n, err := strconv.ParseInt(strings.TrimSpace(line), 16, 64)
		if err != nil {
			return err
		}
		if _, err := io.CopyN(io.Discard, c.answers, n+2); err != nil || n == 0 {
			return err
		}
	}
}

func (c *caller) close() {
	if c.conn != nil {
		c.conn.Close()
		c.conn = nil
	}
}
