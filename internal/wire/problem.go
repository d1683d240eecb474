package wire

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/carillon-run/carillon"
)

// Status is the answer of a server that is well; one that is not answers with a Problem.
type Status struct {
	Status string `json:"status"`
}

// Problem is a refusal: an answer of RFC 9457, or any other answer with an error status.
type Problem struct {
	Type   string `json:"type"` // urn:carillon:problem:…
	Title  string `json:"title"`
	Status int    `json:"status"` // of HTTP
	Detail string `json:"detail"`

	// The faulty part of the request; empty if the request has no fault.
	Field string `json:"field,omitempty"`
	Given string `json:"given,omitempty"`
	Want  string `json:"want,omitempty"`

	Reasons   []string `json:"reasons,omitempty"` // why a server is not ready
	RequestID string   `json:"-"`                 // finds the request in the server's log

	// RetryAfter is how long the server asks to wait before the next try; 0: it does not say.
	RetryAfter time.Duration `json:"-"`
}

// ProblemPrefix begins the types of problems. ProblemLost, behind it, tells the two conflicts apart,
// ProblemOverloaded tells the server's 429 from that of a proxy, and ProblemKeyReused its 422.
const (
	ProblemPrefix     = "urn:carillon:problem:"
	ProblemLost       = "lost"
	ProblemOverloaded = "overloaded"
	ProblemKeyReused  = "idempotency-key-reused"
)

// MarshalJSON writes with a field also the given value, even if that is empty. It leaves < > & as they are:
// people read the answer, and it is never put into a web page.
func (p Problem) MarshalJSON() ([]byte, error) {
	type plain Problem // without this method
	v := struct {
		plain
		Given *string `json:"given,omitempty"`
	}{plain: plain(p)}
	if p.Field != "" {
		v.Given = &p.Given
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return b.Bytes(), err
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
	lost := p.Type == ProblemPrefix+ProblemLost
	switch target {
	case carillon.ErrNotFound:
		return p.Status == http.StatusNotFound
	case carillon.ErrInvalid:
		return p.Status == http.StatusBadRequest || p.Status == http.StatusRequestEntityTooLarge ||
			p.Type == ProblemPrefix+ProblemKeyReused
	case carillon.ErrConflict:
		return p.Status == http.StatusConflict && !lost || p.Status == http.StatusPreconditionFailed
	case carillon.ErrLost:
		return lost
	case carillon.ErrSessionOver:
		return p.Status == http.StatusGone
	}
	return false
}
