package executor

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/carillon-run/carillon"
)

// HTTPConfig is how HTTP jobs reach out. The zero value works and reaches public addresses only.
type HTTPConfig struct {
	// Allow names networks that jobs may reach although they are private, loopback or otherwise special.
	Allow []netip.Prefix
	// RetryBudget is the share of retries in the first requests to a host, at most: others wait. While a host
	// does not answer, nearly all requests wait. Default DefaultRetryBudget; negative: no request waits.
	RetryBudget float64
	Logger      *slog.Logger // default slog.Default()

	resolver *net.Resolver // for tests
}

// HTTP performs runs by requests.
type HTTP struct {
	pooled *http.Client
	fresh  *http.Client // a connection for each request
	hosts  *hosts
}

// NewHTTP makes an executor with its own connection pool. Jobs do not share cookies, follow redirects or use
// a proxy from the environment: each would let one job decide where the request of another one goes.
func NewHTTP(config HTTPConfig) *HTTP {
	dialer := &net.Dialer{
		Timeout: 10 * time.Second, Control: guard{config.Allow}.control, Resolver: config.resolver,
	}
	transport := &http.Transport{
		DialContext:         dialer.DialContext,
		ForceAttemptHTTP2:   true,
		TLSHandshakeTimeout: 10 * time.Second,
		// The worker decides how many requests run at once; only idle connections are bounded here. They stay
		// idle only shortly: many servers close after 5 s, and a request sent at that moment fails before the
		// server has read it.
		MaxIdleConns:           256,
		MaxIdleConnsPerHost:    32,
		IdleConnTimeout:        3 * time.Second,
		MaxResponseHeaderBytes: maxHeader,
		DisableCompression:     true, // the result is what the server sent, and small
	}
	once := transport.Clone()
	once.DisableKeepAlives = true
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &HTTP{
		pooled: &http.Client{Transport: transport, CheckRedirect: stay},
		fresh:  &http.Client{Transport: once, CheckRedirect: stay},
		hosts:  newHosts(config.RetryBudget, config.Logger),
	}
}

// Hosts says how many hosts get no requests now but probes, because they do not answer, and how often a run
// had to wait for its host.
func (h *HTTP) Hosts() (open int, waits int64) { return h.hosts.figures() }

// client is the client that sends a request only once. When a pooled connection breaks, net/http repeats
// requests that it takes to be harmless, and a GET that starts something is common: a job that allows one
// attempt must not arrive twice.
func (h *HTTP) client(method string) *http.Client {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return h.fresh
	}
	return h.pooled
}

// maxHeader has room for a checkpoint of full size in base64.
const maxHeader = carillon.MaxCheckpoint*4/3 + 64<<10

// Execute sends the request and reads the answer.
func (h *HTTP) Execute(ctx context.Context, task Task) carillon.Outcome {
	if ctx.Err() != nil {
		return task.ended(context.Cause(ctx))
	}
	request, err := newRequest(ctx, task)
	if err != nil {
		return fatal("%w", err)
	}
	sent, wait := h.hosts.ask(task, request.URL)
	if wait != nil {
		return *wait
	}
	began := time.Now()
	response, err := h.client(request.Method).Do(request)
	took := time.Since(began).Round(time.Millisecond)
	where := request.Method + " " + shown(request.URL)
	if err != nil {
		return sent.ended(unanswered(ctx, task, where, err), nil)
	}
	defer response.Body.Close()
	task.remark("%s -> %d in %s", where, response.StatusCode, took)
	body, err := readBody(task, response.Body)
	saveCheckpoint(ctx, task, response.Header.Get("Carillon-Checkpoint"))
	if err != nil && ctx.Err() != nil {
		return sent.ended(task.ended(context.Cause(ctx)), response) // the host has answered
	}
	o := answered(task, response)
	if err != nil && o.Kind == carillon.OutcomeSuccess {
		o = retriable("the response broke off: %w", err) // it is unknown whether the target has done its work
	}
	o.Output = outputOf(body)
	if err != nil {
		return sent.ended(o, nil)
	}
	return sent.ended(o, response)
}

func newRequest(ctx context.Context, task Task) (*http.Request, error) {
	target := task.Job.Target.HTTP
	body, err := requestBody(task, target)
	if err != nil {
		return nil, err
	}
	method := target.Method
	if method == "" {
		method = http.MethodPost
	}
	request, err := http.NewRequestWithContext(ctx, method, target.URL, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	header := request.Header
	header.Set("User-Agent", "carillon")
	if len(body) > 0 {
		header.Set("Content-Type", "application/json")
	}
	// The name is in lower case, which makes no difference to a server. net/http would take the canonical
	// name as permission to repeat the request: see client.
	header["idempotency-key"] = []string{task.Run.ID.String()}
	for name, value := range target.Headers {
		switch lower := strings.ToLower(name); lower {
		case "idempotency-key", "x-idempotency-key":
			header[lower] = []string{value}
		case "host":
			request.Host = value
		default:
			header.Set(name, value)
		}
	}
	for _, f := range facts(task) {
		if f.header != "" {
			header.Set("Carillon-"+f.header, f.value)
		}
	}
	if task.Checkpoint != nil {
		header.Set("Carillon-Checkpoint", base64.StdEncoding.EncodeToString(task.Checkpoint))
	}
	if target.Sign != nil {
		return request, sign(header, target.Sign, messageID(&task.Run), body, time.Now())
	}
	return request, nil
}

// messageID is the id of a signed message: a run that repeats another one sends the same message.
func messageID(run *carillon.Run) string {
	id := run.ID
	if run.RetryOf != 0 {
		id.Due = run.RetryOf
	}
	return id.String()
}

// requestBody is the filled template, or else the payload, where the method takes one. Many servers refuse a
// GET with a body, so there the payload goes only where a template puts it.
func requestBody(task Task, target *carillon.HTTP) ([]byte, error) {
	if target.Body == "" {
		if target.Method == http.MethodGet || target.Method == http.MethodHead {
			return nil, nil
		}
		return task.Job.Payload, nil
	}
	body, err := target.ExpandBody(&task.Run, task.Job)
	if err != nil {
		return nil, fmt.Errorf("body: %w", err)
	}
	return body, nil
}

// unanswered is the outcome of a request that got no response.
func unanswered(ctx context.Context, task Task, where string, err error) carillon.Outcome {
	if wrapped := (*url.Error)(nil); errors.As(err, &wrapped) {
		err = wrapped.Err // without the URL, whose query may hold a secret
	}
	if refused := (*refusal)(nil); errors.As(err, &refused) {
		task.remark("%s: %s", where, refused)
		return fatal("%w", refused)
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
		task.remark("%s: %s", where, err)
		return task.ended(err)
	}
	task.remark("%s: %s", where, err)
	return retriable("%w", err)
}

// readBody keeps the beginning of the body and reads a little further, so that the connection can be used
// again.
func readBody(task Task, r io.Reader) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(r, carillon.MaxResult))
	if err != nil {
		return body, err
	}
	more, err := io.CopyN(io.Discard, r, 256<<10)
	if more > 0 {
		task.remark("the response is cut after %d bytes", carillon.MaxResult)
	}
	if err == io.EOF || more > 0 {
		err = nil // the part that is not kept can break off
	}
	return body, err
}

// shown is a URL as it can appear in a log: without its query, which often holds a token.
func shown(u *url.URL) string {
	short := *u
	short.User, short.Fragment = nil, ""
	if short.RawQuery != "" {
		short.RawQuery = "…"
	}
	return short.String()
}
