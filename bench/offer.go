package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
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

// offer plays all callers in one goroutine, which looks at all of them every half a millisecond. If it waited
// for their sockets instead, the kernel would have to wake it for each answer, and would do that on the
// processor of the server: a fifth of what a refusal costs. Callers on other machines cost the server nothing
// of the kind.
func offer(o orders, what offering) (all offered, err error) {
	at, err := url.Parse(o.Server)
	if err != nil {
		return all, err
	}
	server, err := netip.ParseAddrPort(at.Host)
	if err != nil {
		return all, err
	}
	request, err := batchRequest(o.Token, at.Host, what.Jobs)
	if err != nil {
		return all, err
	}
	var idle, waiting []*caller
	for range what.Callers {
		idle = append(idle, &caller{server: server, request: request})
	}
	var took []time.Duration // of accepted requests
	sent := 0                // requests, and those that were not sent because no caller was free
	start := time.Now()
	for {
		now := time.Now()
		over := now.Sub(start) >= what.For
		if over && len(waiting) == 0 {
			break
		}
		for !over && len(idle) > 0 {
			due := start
			if what.Rate > 0 {
				due = start.Add(time.Duration(float64((sent+1)*what.Jobs) / what.Rate * float64(time.Second)))
			}
			if due.After(now) {
				break
			}
			sent++
			if what.Rate > 0 && now.Sub(due) > time.Second {
				continue
			}
			c := idle[0] // each in turn: a server closes connections that are idle for minutes
			idle, waiting = idle[1:], append(waiting, c)
			all.Sent++
			c.begin(now)
		}
		waiting = slices.DeleteFunc(waiting, func(c *caller) bool {
			status, done := c.proceed(now)
			if !done {
				return false
			}
			all.count(status)
			if status == "201" {
				took = append(took, now.Sub(c.began))
			}
			idle = append(idle, c)
			return true
		})
		time.Sleep(500 * time.Microsecond)
	}
	for _, c := range idle {
		c.close()
	}
	all.P99 = quantile(took, 0.99)
	return all, nil
}

func (o *offered) count(status string) {
	switch status {
	case "":
		o.Silent++
	case "201":
		o.Accepted++
	case "429":
		o.Refused++
	default:
		o.Other = status
	}
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
