package api

import (
	"bytes"
	"encoding/json"
	"net/http"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/wire"
)

func (s *server) refusedRoutes() []route {
	return []route{{
		Method: "GET", Pattern: "/v1/refused",
		Summary: "List jobs that applications submitted in the database and Carillon refused, latest first",
		Query:   paging,
		Status:  200, Gives: wire.Page[wire.Refusal]{}, handle: s.listRefused,
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
	items, next := []wire.Refusal{}, ""
	if s.Intake != nil {
		found, err := s.Intake.Submissions(r.Context(), carillon.SubmissionQuery{
			Refused: true, Namespace: namespace(r), Before: before, Limit: limit + 1,
		})
		if err != nil {
			return err
		}
		for i, f := range found {
			if i == limit {
				next = found[limit-1].ID.String()
				break
			}
			items = append(items, wire.Refusal{ID: f.ID, At: f.At, Reason: f.Reason, Job: masked(f.Body)})
		}
	}
	return reply(w, http.StatusOK, wire.NewPage(items, q.nextCursor(next)))
}

// masked is a refused definition, which can be any JSON, without its secrets.
func masked(body json.RawMessage) json.RawMessage {
	if !bytes.Contains(body, []byte(`"secret"`)) {
		return body
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var value any
	if d.Decode(&value) != nil {
		return body
	}
	var text bytes.Buffer
	encode(&text, withoutSecrets(value))
	return bytes.TrimSpace(text.Bytes())
}

func withoutSecrets(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for key := range v {
			if _, text := v[key].(string); text && key == "secret" {
				v[key] = carillon.SecretMask
				continue
			}
			v[key] = withoutSecrets(v[key])
		}
	case []any:
		for i := range v {
			v[i] = withoutSecrets(v[i])
		}
	}
	return value
}
