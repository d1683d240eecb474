package client

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/carillon-run/carillon"
)

// Problem is a refusal: an answer of RFC 9457, or any other answer with an error status.
type Problem struct {
	Type   string `json:"type"` // urn:carillon:problem:…
	Title  string `json:"title"`
	Status int    `json:"status"` // of HTTP
	Detail string `json:"detail"`

	// The faulty part of the request; empty if the request has no fault.
	Field string `json:"field"`
	Given string `json:"given"`
	Want  string `json:"want"`

	Reasons   []string `json:"reasons"` // why a server is not ready
	RequestID string   `json:"-"`       // finds the request in the server's log
}

// Error names the field, the given value and what would be right; or it says what happened.
func (p *Problem) Error() string {
	switch {
	case p.Field != "":
		// The detail says in the server's words what is wrong. Its field can be one of a batch, such as
		// jobs[3].name, which the caller knows as name.
		if field, wrong, ok := strings.Cut(p.Detail, ": "); ok && strings.HasSuffix(field, p.Field) {
			return p.Field + ": " + wrong
		}
		return fmt.Sprintf("%s: %q is not valid: want %s", p.Field, p.Given, p.Want)
	case len(p.Reasons) > 0:
		return "not ready: " + strings.Join(p.Reasons, "; ")
	}
	text := cmp.Or(p.Detail, p.Title, http.StatusText(p.Status), "no reason given")
	if p.Status >= 500 {
		text = fmt.Sprintf("the server answered %d: %s", p.Status, text)
		if p.RequestID != "" {
			text += " (request " + p.RequestID + ")"
		}
	}
	return text
}

// Is makes a problem one of carillon's sentinels, so that callers need not know status codes.
func (p *Problem) Is(target error) bool {
	switch target {
	case carillon.ErrNotFound:
		return p.Status == http.StatusNotFound
	case carillon.ErrInvalid:
		return p.Status == http.StatusBadRequest || p.Status == http.StatusRequestEntityTooLarge
	case carillon.ErrConflict:
		return p.Status == http.StatusConflict && !p.lost() || p.Status == http.StatusPreconditionFailed
	case carillon.ErrLost:
		return p.lost()
	case carillon.ErrSessionOver:
		return p.Status == http.StatusGone
	}
	return false
}

func (p *Problem) lost() bool { return strings.HasSuffix(p.Type, ":lost") }

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
	p.RequestID = answer.Header.Get("X-Request-Id")
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
}

func (e *Unreachable) Error() string {
	return fmt.Sprintf("cannot reach the server at %s: %v", e.URL, e.Err)
}
func (e *Unreachable) Unwrap() error { return e.Err }
