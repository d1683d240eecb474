package api

import (
	"net/http"
	"strconv"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/wire"
)

// listAttempts lists the attempts of a run, the first one first. The run is read before the records: an
// attempt that ends in between then has its record.
func (s *server) listAttempts(w http.ResponseWriter, r *http.Request, q *query) error {
	run, err := s.run(r, false)
	if err != nil {
		return err
	}
	after, limit := int64(0), q.limit()
	if cursor := q.cursor(); cursor != "" {
		if after, err = strconv.ParseInt(cursor, 10, 32); err != nil {
			return invalid("cursor", cursor, "the next_cursor of the page before")
		}
	}
	if q.err != nil {
		return q.err
	}
	records, err := s.Store.Attempts(r.Context(), run.ID, int32(after), limit)
	if err != nil {
		return err
	}
	more := len(records) == limit && records[limit-1].Number < run.Attempt
	attempts := run.Attempts(records, int32(after), more)
	next := ""
	if more && len(attempts) > 0 {
		next = strconv.Itoa(int(attempts[len(attempts)-1].Number))
	}
	return reply(w, http.StatusOK, wire.NewPage[carillon.Attempt](attempts, q.nextCursor(next)))
}
