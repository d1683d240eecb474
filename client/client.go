// Package client talks to a Carillon server over its HTTP API, with the types of package carillon.
//
//	c, err := client.New(client.Config{URL: "http://127.0.0.1:8420", Token: token})
//	echo := carillon.Target{Command: &carillon.Command{Argv: []string{"echo", "hello"}}}
//	job, err := c.Submit(ctx, carillon.Definition{Target: echo})
//
// If the server refuses a call, the error is a *Problem, which also is one of carillon's sentinel errors for
// errors.Is. If the server does not answer, the error is an *Unreachable.
//
// A call that changes something has an idempotency key, a random one unless WithIdempotencyKey gives it. The
// client sends such a call again, with the same key, if it could not connect, if the connection broke or no
// answer came in time, if the server answered 429 with Retry-After (it has too many jobs to store), and after
// 502, 503 and 504. The server performs it once, however often it arrives. The client waits longer before
// each further try, at least as long as the server asks for, and gives up when Config.Tries, Config.Timeout
// or the caller's context says so. The outcome is then unknown, unless the error is a *Problem with a status
// below 500, or an *Unreachable that was NotSent; with an *UnknownOutcome around it, it is unknown all the
// same, because of an earlier try. The caller can send the call again later if it chose the key. Calls that
// only read, and SaveCheckpoint, are sent once; following a log reconnects after a broken connection.
package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/carillon-run/carillon/internal/wire"
)

// Config says where the server is.
type Config struct {
	URL   string // scheme, host and perhaps a path in front of /v1
	Token string // the server writes it to the file "token" of its data directory
	// HTTP makes the requests. Default: a separate client that follows no redirects and gives up after 10
	// seconds if the network is silent when it connects. A Timeout in it also ends the following of logs.
	HTTP *http.Client
	// Warn receives the server's warnings, for example that it took the job, but no live worker serves the
	// job's queue. Default: warnings are ignored. Several goroutines can call Warn at the same time.
	Warn func(text string)
	// Timeout bounds each call except Logs, all its tries included. Default 1m.
	Timeout time.Duration
	// Tries is how often a call that changes something is sent at most. Default 5. With 1 it has no
	// idempotency key of its own.
	Tries int
	// Retrying is called before each wait for a further try, with the reason. If it returns false, the call
	// fails for that reason. Several goroutines can call it at the same time. Default: true.
	Retrying func(reason error, wait time.Duration) bool
}

// Client talks to one server. Many goroutines can use it at once.
type Client struct {
	base    *url.URL
	token   string
	http    *http.Client
	timeout time.Duration
	warn    func(text string)

	tries    int
	retrying func(reason error, wait time.Duration) bool
}

// New checks the address; it sends nothing.
func New(c Config) (*Client, error) {
	base, err := url.Parse(c.URL)
	if err != nil || base.Host == "" || (base.Scheme != "http" && base.Scheme != "https") {
		return nil, fmt.Errorf("%q is not valid: want the server's URL, such as http://127.0.0.1:8420", c.URL)
	}
	if c.Warn == nil {
		c.Warn = func(string) {}
	}
	if c.Retrying == nil {
		c.Retrying = func(error, time.Duration) bool { return true }
	}
	return &Client{
		base: base, token: c.Token, http: cmp.Or(c.HTTP, defaultHTTP()),
		timeout: cmp.Or(c.Timeout, time.Minute), warn: c.Warn,
		tries: max(cmp.Or(c.Tries, 5), 1), retrying: c.Retrying,
	}, nil
}

func defaultHTTP() *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 64 // many callers may share a client: all of them talk to one host
	transport.DialContext = (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}).DialContext
	return &http.Client{
		Transport: transport,
		// The API has no redirects, so a redirect comes from something between client and server. Show it,
		// not the login page behind it.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// request is one call of the API.
type request struct {
	method string
	path   string
	query  url.Values
	header http.Header
	body   any // nil: none; []byte: as it is; else as JSON
}

// call performs a request and reads the answer into out, unless that is nil.
func (c *Client) call(ctx context.Context, r request, out any) error {
	ctx, cancel := within(ctx, c.timeout)
	defer cancel()
	return c.perform(ctx, r, out)
}

// perform is call without a bound of its own.
func (c *Client) perform(ctx context.Context, r request, out any) error {
	answer, err := c.send(ctx, r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	body := &body{Reader: answer.Body}
	switch out := out.(type) {
	case nil:
		_, err = io.Copy(io.Discard, body) // so that the connection can be used again
	case *[]byte:
		*out, err = readAll(body, answer.ContentLength)
	default:
		err = json.NewDecoder(body).Decode(out)
	}
	if err != nil && body.failed != nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = &cutError{err}
	}
	if err != nil {
		return c.failed(
			ctx, fmt.Errorf("read the answer to %s %s: %w", r.method, answer.Request.URL.Path, err),
		)
	}
	return nil
}

// body is the body of an answer. It remembers that reading failed, because the error of a decoder does not
// tell an answer that did not arrive as a whole from one that the client does not understand.
type body struct {
	io.Reader
	failed error
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err != io.EOF {
		b.failed = err
	}
	return n, err
}

// cutError means that only a part of an answer arrived.
type cutError struct{ error }

func (e *cutError) Unwrap() error { return e.error }

// readAll allocates once where the length is known: answers to pulls are large, and come all the time.
func readAll(from io.Reader, length int64) ([]byte, error) {
	var b bytes.Buffer
	if length > 0 && length < 16<<20 {
		b.Grow(int(length) + bytes.MinRead)
	}
	_, err := b.ReadFrom(from)
	return b.Bytes(), err
}

// send returns a 2xx answer, whose body the caller closes, or an error.
func (c *Client) send(ctx context.Context, r request) (*http.Response, error) {
	// The error alone does not say it: on a connection that breaks, net/http sends a request that has an
	// idempotency key again by itself, and reports that it could not connect for that.
	var connected atomic.Bool
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }}
	req, err := c.build(httptrace.WithClientTrace(ctx, trace), r)
	if err != nil {
		return nil, err
	}
	answer, err := c.http.Do(req)
	if err != nil {
		var wrapped *url.Error // repeats method and URL
		if errors.As(err, &wrapped) {
			err = wrapped.Err
		}
		return nil, c.failed(
			ctx, &Unreachable{URL: c.base.String(), Err: err, connected: connected.Load()},
		)
	}
	if answer.StatusCode/100 != 2 {
		defer answer.Body.Close()
		return nil, readProblem(answer)
	}
	for _, text := range answer.Header.Values(wire.WarningHeader) {
		c.warn(text)
	}
	return answer, nil
}

func (c *Client) build(ctx context.Context, r request) (*http.Request, error) {
	var body io.Reader
	switch b := r.body.(type) {
	case nil:
	case []byte:
		body = bytes.NewReader(b)
	default:
		text, err := json.Marshal(b)
		if err != nil {
			return nil, fmt.Errorf("write the body: %w", err)
		}
		body = bytes.NewReader(text)
	}
	u := c.base.JoinPath(r.path)
	u.RawQuery = r.query.Encode()
	req, err := http.NewRequestWithContext(ctx, r.method, u.String(), body)
	if err != nil {
		return nil, err
	}
	if r.header != nil {
		req.Header = r.header.Clone()
	}
	if body != nil && req.Header.Get("Content-Type") == "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	return req, nil
}

// timeout is why a context ended: no answer came within this time.
type timeout time.Duration

func (t timeout) Error() string {
	waited := time.Duration(t)
	return fmt.Sprintf("no answer in time: waited %s", waited.Round(min(waited, time.Second)/10))
}

func within(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, limit, timeout(limit))
}

// failed prefers the reason why the caller, or the timeout, gave up to the connection error that followed
// from it.
func (c *Client) failed(ctx context.Context, err error) error {
	var late timeout
	switch cause := context.Cause(ctx); {
	case cause == nil:
		return err
	case errors.As(cause, &late):
		return &Unreachable{URL: c.base.String(), Err: late}
	case cause == ctx.Err():
		return cause
	default:
		return fmt.Errorf("%w: %w", ctx.Err(), cause)
	}
}
