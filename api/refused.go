package api

import (
	"encoding/json"
	"net/http"

	"github.com/carillon-run/carillon"
)

// refusal is a job that an application left in the database and that was not admitted.
type refusal struct {
	ID     carillon.JobID  `json:"id"`
	At     carillon.Time   `json:"submitted_at"`
	Reason string          `json:"reason"`
	Body   json.RawMessage `json:"job"`
}

func (s *server) refusedRoutes() []route {
	return []route{{
		Method: "GET", Pattern: "/v1/refused",
		Summary: "List jobs that were submitted inside a database and refused, latest first", Query: paging,
		Status: 200, Gives: page[refusal]{}, handle: s.listRefused,
	}}
}

func (s *server) listRefused(w http.ResponseWriter, r *http.Request, q *query) error {
	var before carillon.JobID
	if after := q.cursor(); after != "" {
		id, err := carillon.ParseJobID(after)
		q.in("cursor", err)
		before = id
	}
	limit := q.limit()
	if q.err != nil {
		return q.err
	}
	items, next := []refusal{}, ""
	if s.Intake != nil {
		found, err := s.Intake.Refused(r.Context(), namespace(r), before, limit+1)
		if err != nil {
			return err
		}
		for i, f := range found {
			if i == limit {
				next = found[limit-1].ID.String()
				break
			}
			items = append(items, refusal{ID: f.ID, At: f.At, Reason: f.Reason, Body: f.Body})
		}
	}
	return reply(w, http.StatusOK, newPage(items, q.nextCursor(next)))
}
