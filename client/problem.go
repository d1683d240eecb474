package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/carillon-run/carillon/internal/wire"
)

// Problem is a refusal: an answer of RFC 9457, or any other answer with an error status.
type Problem = wire.Problem

// readProblem also takes answers that are not a problem document: they come from something between the client
// and the server.
func readProblem(answer *http.Response) *Problem {
	p := &Problem{}
	body, _ := io.ReadAll(io.LimitReader(answer.Body, 64<<10))
	kind, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	if kind != "application/problem+json" || json.Unmarshal(body, p) != nil {
		*p = Problem{Title: http.StatusText(answer.StatusCode), Detail: foreign(answer, kind, string(body))}
	}
	p.Status = answer.StatusCode
	p.RequestID = answer.Header.Get(wire.RequestHeader)
	if seconds, err := strconv.Atoi(answer.Header.Get("Retry-After")); err == nil && seconds > 0 {
		p.RetryAfter = time.Duration(seconds) * time.Second
	}
	return p
}

func foreign(answer *http.Response, kind, body string) string {
	text := "not an answer of Carillon: " + answer.Status
	if place := answer.Header.Get("Location"); place != "" {
		text += " to " + place
	}
	if line, _, _ := strings.Cut(strings.TrimSpace(body), "\n"); kind == "text/plain" && line != "" {
		text += ": " + line[:min(len(line), 200)]
	}
	return text
}

// Unreachable means that no answer came. A call that changes something may have taken effect all the same.
type Unreachable struct {
	URL string
	Err error

	connected bool // there was a connection, so the request may have been sent
}

func (e *Unreachable) Error() string {
	return fmt.Sprintf("cannot reach the server at %s: %v", e.URL, e.Err)
}
func (e *Unreachable) Unwrap() error { return e.Err }

// NotSent says that there was no connection, so the request was not sent.
func (e *Unreachable) NotSent() bool {
	var dial *net.OpError
	return !e.connected && errors.As(e.Err, &dial) && dial.Op == "dial"
}

// UnknownOutcome means that the last try of a call was not performed, but an earlier one may have been. For
// errors.As it is both errors. A caller that chose the idempotency key can send the call again with it.
type UnknownOutcome struct {
	Last    error // for example a *Problem of status 429
	Earlier error // of a try that had no answer of the server
}

func (e *UnknownOutcome) Error() string {
	return fmt.Sprintf(
		"it is not known whether the request took effect: the last try: %v; an earlier one: %v",
		e.Last, e.Earlier,
	)
}
func (e *UnknownOutcome) Unwrap() []error { return []error{e.Last, e.Earlier} }
