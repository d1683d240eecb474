package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/jobjson"
	"github.com/carillon-run/carillon/internal/wire"
)

// problem is an error in the form of RFC 9457. Fault is for a fault in the request.
type problem struct {
	Type    string // without its prefix
	Title   string
	Status  int
	Detail  string
	Fault   *carillon.FieldError
	Reasons []string

	RetryAfter time.Duration // for the header; 0: none

	text []byte // what encoded returns, if it is known
}

func (p problem) Error() string { return p.Title + ": " + p.Detail }

func (p problem) write(w http.ResponseWriter) {
	if p.text == nil {
		p.text = p.encoded()
	}
	w.Header().Set("Content-Type", problemType)
	w.WriteHeader(p.Status)
	_, _ = w.Write(p.text) // an error means that the caller has gone
}

const problemType = "application/problem+json"

func (p problem) encoded() []byte {
	v := wire.Problem{
		Type: wire.ProblemPrefix + p.Type, Title: p.Title, Status: p.Status, Detail: p.Detail,
		Reasons: p.Reasons,
	}
	if p.Fault != nil {
		v.Field, v.Given, v.Want = p.Fault.Field, jobjson.Shorten(p.Fault.Given, maxGiven), p.Fault.Want
		v.Detail = p.Fault.Error()
	}
	var text bytes.Buffer
	encode(&text, v)
	return text.Bytes()
}

// encode leaves < > & as they are: people read the answer, and it is never put into a web page.
func encode(w io.Writer, v any) {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // an error means that the caller has gone
}

// maxGiven bounds how much of a request a problem repeats.
const maxGiven = 200

func invalid(field, given, want string) error {
	return &carillon.FieldError{Field: field, Given: given, Want: want}
}

// fail answers with the problem. Details that are not the caller's business go to the log instead.
func (s *server) fail(w http.ResponseWriter, r *http.Request, err error) {
	p := problemOf(err)
	if p.Status >= 500 && r.Context().Err() == nil { // else the caller has gone or the server is stopping
		s.Logger.ErrorContext(
			r.Context(), "request failed", "request", requestID(w), "route", r.Pattern, "error", err,
		)
	}
	if p.Type == "unavailable" && r.Method == http.MethodGet {
		p.Detail = "the store does not answer now; try again"
	}
	if r.Header.Get(wire.IdempotencyHeader) != "" {
		switch p.Type {
		case "unavailable":
			p.Detail = "the server could not finish the request; send it again with the same " +
				wire.IdempotencyHeader
		case "full":
			p.Detail = makeRoom + "Send the request again then, with the same " + wire.IdempotencyHeader
		}
	}
	if p.Status == http.StatusServiceUnavailable {
		p.RetryAfter = time.Second
	}
	if p.RetryAfter > 0 {
		w.Header().Set("Retry-After", retrySeconds(p.RetryAfter))
	}
	p.write(w)
}

// retrySeconds is the value of the header Retry-After.
func retrySeconds(after time.Duration) string { return strconv.Itoa(int(after.Seconds())) }

const makeRoom = "make room on the disk of the store; the server then goes on by itself. "

func problemOf(err error) problem {
	var p problem
	var fault *carillon.FieldError
	var reused *carillon.KeyReusedError
	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &reused):
		return problem{
			Type: wire.ProblemKeyReused, Title: "The idempotency key belongs to another request",
			Status: http.StatusUnprocessableEntity, Detail: reused.Error(),
		}
	case errors.As(err, &fault):
		return problem{Type: "invalid", Title: "Invalid input", Status: http.StatusBadRequest, Fault: fault}
	case errors.Is(err, carillon.ErrNotFound):
		return problem{
			Type: "not-found", Title: "Not found", Status: http.StatusNotFound,
			Detail: detail(err, carillon.ErrNotFound),
		}
	case errors.Is(err, carillon.ErrConflict):
		return problem{
			Type: "conflict", Title: "Not possible in this state", Status: http.StatusConflict,
			Detail: detail(err, carillon.ErrConflict),
		}
	case errors.Is(err, carillon.ErrLost):
		return problem{
			Type: wire.ProblemLost, Title: "The run belongs to another attempt now",
			Status: http.StatusConflict,
			Detail: "the run has another attempt now, with another fence: stop working on this one",
		}
	case errors.Is(err, carillon.ErrSessionOver):
		return problem{
			Type: "session-over", Title: "The session is over", Status: http.StatusGone,
			Detail: "stop the runs that began under it, register again, and report runs that have ended " +
				"under the new id",
		}
	case errors.Is(err, carillon.ErrFull):
		return problem{
			Type: "full", Title: "The disk of the store is full", Status: http.StatusServiceUnavailable,
			Detail: makeRoom +
				"It does not know whether this request changed something. Look, then try again",
		}
	case errors.Is(err, carillon.ErrBusy):
		return problem{
			Type: "busy", Title: "Others change it too quickly", Status: http.StatusServiceUnavailable,
			Detail: "other requests changed the same thing each time before this one could. This request " +
				"changed nothing; send it again",
		}
	case errors.Is(err, carillon.ErrInvalid):
		return problem{
			Type: "invalid", Title: "Invalid input", Status: http.StatusBadRequest,
			Fault: &carillon.FieldError{Field: "body", Want: detail(err, carillon.ErrInvalid)},
		}
	}
	return problem{
		Type: "unavailable", Title: "Not available", Status: http.StatusServiceUnavailable,
		Detail: "the server could not finish the request, and does not know whether it changed something. " +
			"Look, then try again",
	}
}

// detail returns the text of the error without its sentinel.
func detail(err, sentinel error) string {
	return strings.TrimPrefix(err.Error(), sentinel.Error()+": ")
}

func notFound(what string) error {
	return problem{
		Type: "not-found", Title: "Not found", Status: http.StatusNotFound, Detail: "there is no " + what,
	}
}
