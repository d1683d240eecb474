package api

import (
	"net/http"

	"github.com/carillon-run/carillon/internal/wire"
)

func (s *server) healthz(w http.ResponseWriter, _ *http.Request, _ *query) error {
	return reply(w, http.StatusOK, wire.Status{Status: "ok"})
}

func (s *server) readyz(w http.ResponseWriter, _ *http.Request, _ *query) error {
	err := s.Ready()
	if err == nil {
		return reply(w, http.StatusOK, wire.Status{Status: "ready"})
	}
	problem{
		Type: "not-ready", Title: "Not ready", Status: http.StatusServiceUnavailable,
		Detail:  "the server cannot take jobs now",
		Reasons: reasons(err),
	}.write(w)
	return nil
}

// reasons takes joined errors apart.
func reasons(err error) []string {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []string{err.Error()}
	}
	var all []string
	for _, one := range joined.Unwrap() {
		all = append(all, reasons(one)...)
	}
	return all
}

func (s *server) metrics(w http.ResponseWriter, r *http.Request, _ *query) error {
	if s.Metrics == nil {
		return notFound("metrics on this server")
	}
	s.Metrics.ServeHTTP(w, r)
	return nil
}
