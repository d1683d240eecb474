package api

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/carillon-run/carillon/internal/wire"
)

// always are headers of every answer. Answers share the values: no handler may change them in place.
var always = http.Header{
	"X-Content-Type-Options":  {"nosniff"},
	"Cache-Control":           {"no-store"},
	"Content-Security-Policy": {"default-src 'none'; frame-ancestors 'none'"},
}

// guard wraps every route. It gives the request an id, keeps browsers from guessing types, from storing
// answers and from being abused, turns a panic into an answer, and logs. It logs no headers, bodies or
// queries, so it logs no tokens or payloads.
func (s *server) guard(next http.Handler) http.Handler {
	origin := http.NewCrossOriginProtection()
	origin.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		problem{
			Type: "cross-origin", Title: "Refused from another origin", Status: http.StatusForbidden,
			Detail: "a web page of another origin cannot change anything here",
		}.write(w)
	}))
	next = origin.Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		started := time.Now()
		w.Header().Set(wire.RequestHeader, newRequestID())
		maps.Copy(w.Header(), always)
		watched := &watch{ResponseWriter: w, bodyRead: r.ContentLength == 0}
		defer func() {
			s.caught(watched, r, recover())
			watched.leaveBody()
			if s.Logger.Enabled(r.Context(), slog.LevelDebug) { // its arguments cost more than a refusal
				s.Logger.DebugContext(r.Context(), "request", "request", requestID(w), "method", r.Method,
					"route", r.Pattern, "status", watched.status, "took", time.Since(started))
			}
		}()
		next.ServeHTTP(watched, r)
	})
}

// caught answers for a handler that panicked. It lets the panic go on if the handler cut the connection on
// purpose, and cuts the connection if the handler had begun to answer: a broken connection is better than
// half an answer that looks complete.
func (s *server) caught(w *watch, r *http.Request, cause any) {
	if cause == nil {
		return
	}
	if err, ok := cause.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(cause)
	}
	s.Logger.ErrorContext(r.Context(), "panic", "request", requestID(w), "route", r.Pattern, "cause",
		fmt.Sprint(cause),
		"stack", string(debug.Stack()))
	if w.status != 0 {
		panic(http.ErrAbortHandler)
	}
	problem{
		Type: "internal", Title: "Internal error", Status: http.StatusInternalServerError,
		Detail: "this is a bug; the server's log says more under request " + requestID(w),
	}.write(w)
}

// watch remembers the status, and whether the body was read. Unwrap lets http.ResponseController reach the
// connection.
type watch struct {
	http.ResponseWriter
	status   int
	bodyRead bool // also true if there is no body
}

// refused says that the request is refused whatever its body is. By default net/http lets the answer wait for
// the body, which may never come. So watch has the connection closed instead.
func (w *watch) refused() bool { return w.status >= http.StatusBadRequest && !w.bodyRead }

// unreadGrace is how long the server still reads the body of a refused request, before or after the answer.
// Closing the connection while the body comes would reset it, and a reset can reach the caller before the
// caller has read the answer. net/http grants the same time to bodies of more than 256 KiB.
const unreadGrace = 500 * time.Millisecond

// leaveBody keeps net/http from waiting for the rest of the body after the answer.
func (w *watch) leaveBody() {
	if w.refused() {
		_ = http.NewResponseController(w.ResponseWriter).SetReadDeadline(time.Now().Add(unreadGrace))
	}
}

func (w *watch) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	if w.refused() {
		w.Header().Set("Connection", "close")
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *watch) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(b)
}

func (w *watch) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func newRequestID() string {
	b := requestBytes()
	return hex.EncodeToString(b[:])
}

func requestBytes() (b [8]byte) {
	_, _ = rand.Read(b[:]) // never fails
	return b
}

func requestID(w http.ResponseWriter) string { return w.Header().Get(wire.RequestHeader) }
