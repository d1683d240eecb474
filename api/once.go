package api

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"strings"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/wire"
)

// withOnce returns a request whose context carries its idempotency key: see carillon.Once.
func withOnce(r *http.Request) (*http.Request, error) {
	given := r.Header.Values(wire.IdempotencyHeader)
	if len(given) == 0 {
		return r, nil
	}
	if len(given) > 1 {
		return r, &carillon.FieldError{
			Field: wire.IdempotencyHeader, Given: strings.Join(given, " and "), Want: "one key",
			Wrong: fmt.Sprintf("%d keys are given", len(given)),
		}
	}
	once, err := carillon.NewOnce(wire.IdempotencyHeader, given[0])
	if err != nil {
		return r, err
	}
	body := &hashedBody{ReadCloser: r.Body, once: once, sum: sha256.New()}
	for _, part := range []string{
		r.Method, r.URL.EscapedPath(), r.URL.RawQuery, r.Header.Get("If-Match"),
	} {
		_, _ = io.WriteString(body.sum, part+"\n") // never fails
	}
	if r.ContentLength == 0 {
		body.end()
	}
	r = r.WithContext(once.Context(r.Context()))
	r.Body = body
	return r, nil
}

// hashedBody hashes a body while the handler reads it. At its end the hash of the request is known.
type hashedBody struct {
	io.ReadCloser
	once *carillon.Once
	sum  hash.Hash
}

func (h *hashedBody) Read(b []byte) (int, error) {
	n, err := h.ReadCloser.Read(b)
	h.sum.Write(b[:n])
	if err == io.EOF {
		h.end()
	}
	return n, err
}

func (h *hashedBody) end() { h.once.Request = hex.EncodeToString(h.sum.Sum(nil)[:16]) }

// performed returns, in place of an error that refuses a request, a *carillon.RepeatedError if the request
// was performed before. What it changed then can be why it is refused now: a job is paused once. If the guard
// of the key cannot be read, that is the error: a refusal would say that the request changed nothing.
func (s *server) performed(r *http.Request, err error) error {
	once := carillon.OnceOf(r.Context())
	if err == nil || once == nil || once.Request == "" || problemOf(err).Status >= 500 {
		return err
	}
	var repeated *carillon.RepeatedError
	var reused *carillon.KeyReusedError
	if errors.As(err, &repeated) || errors.As(err, &reused) {
		return err
	}
	if used := s.Ledger.Used(r.Context(), namespace(r)); used != nil {
		return used
	}
	return err
}

// submitJobs admits definitions and submits them. define reads them, and is called again with the time of the
// first request if this one repeats it.
func (s *server) submitJobs(
	r *http.Request, define func(at carillon.Time) ([]carillon.Definition, error),
) (jobs []carillon.Job, err error) {
	now := s.Clock.Now()
	if once := carillon.OnceOf(r.Context()); once != nil {
		once.At = now
	}
	defs, err := define(now)
	if err == nil {
		jobs, err = s.Ledger.Submit(r.Context(), namespace(r), defs)
	}
	var repeated *carillon.RepeatedError
	if err = s.performed(r, err); !errors.As(err, &repeated) {
		return jobs, err
	}
	if defs, err = define(repeated.Use.At); err != nil {
		return nil, err
	}
	var stored []carillon.Job
	if found := repeated.Use.FoundJobs(); len(found) > 0 {
		if stored, err = s.Store.Jobs(r.Context(), found); err != nil {
			return nil, err
		}
	}
	return repeated.Use.Submitted(namespace(r), defs, stored), nil
}

// outcome is the answer to a write that is no submit, as the guard of its idempotency key keeps it.
type outcome struct {
	Status         int
	Location, ETag string // headers; empty: none
	Body           string
}

func newOutcome(status int, body any) outcome {
	var text bytes.Buffer
	encode(&text, body)
	return outcome{Status: status, Body: text.String()}
}

func (o outcome) write(w http.ResponseWriter) {
	if o.Location != "" {
		w.Header().Set("Location", o.Location)
	}
	if o.ETag != "" {
		w.Header().Set("ETag", o.ETag)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(o.Status)
	_, _ = io.WriteString(w, o.Body) // an error means that the caller has gone
}

// write performs a write that is no submit, and answers with what show makes of its job and its run.
func (s *server) write(
	w http.ResponseWriter, r *http.Request, show func(*carillon.Job, *carillon.Run) outcome,
	do func() (carillon.Job, carillon.Run, error),
) error {
	var said outcome
	if once := carillon.OnceOf(r.Context()); once != nil {
		once.Answer = func(job *carillon.Job, run *carillon.Run) (json.RawMessage, error) {
			said = show(job, run)
			return json.Marshal(said)
		}
	}
	job, run, err := do()
	var repeated *carillon.RepeatedError
	if err = s.performed(r, err); errors.As(err, &repeated) {
		err = json.Unmarshal(repeated.Use.Answer, &said)
	} else if err == nil && said.Status == 0 {
		said = show(&job, &run)
	}
	if err != nil {
		return err
	}
	said.write(w)
	return nil
}

// showJob shows a job that existed before.
func (s *server) showJob(job *carillon.Job, _ *carillon.Run) outcome {
	said := newOutcome(http.StatusOK, s.shown(*job))
	said.ETag = etag(job.Version)
	return said
}

// writeRun is write for a run that can start soon.
func (s *server) writeRun(
	w http.ResponseWriter, r *http.Request, show func(*carillon.Job, *carillon.Run) outcome,
	do func() (carillon.Run, error),
) error {
	return s.write(w, r, show, func() (_ carillon.Job, run carillon.Run, err error) {
		if run, err = do(); err == nil {
			s.warnOf(w, r, 1, func(int) carillon.Lane { return run.Lane() })
		}
		return carillon.Job{}, run, err
	})
}

// showRun shows a run that existed before.
func showRun(_ *carillon.Job, run *carillon.Run) outcome { return newOutcome(http.StatusOK, run) }

// showNew shows a run that was added.
func showNew(_ *carillon.Job, run *carillon.Run) outcome {
	said := newOutcome(http.StatusCreated, run)
	said.Location = "/v1/runs/" + run.ID.String()
	return said
}
