package client

import (
	"context"
	"encoding/json"
	"iter"
	"maps"
	"net/http"
	"slices"
	"strconv"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/wire"
)

// DeadLetter is a run that failed for good, DeadLetterDetail the same with everything that is needed to
// understand it.
type (
	DeadLetter       = wire.DeadLetter
	DeadLetterDetail = wire.DeadLetterDetail
)

// DeadLetters goes over the runs that failed for good and that the filter chooses, latest first. The zero
// filter chooses all. limit is the size of a page (0: the server's choice).
func (c *Client) DeadLetters(
	ctx context.Context, f carillon.DeadFilter, limit int,
) iter.Seq2[DeadLetter, error] {
	return pages(ctx, func(ctx context.Context, cursor Cursor) (Page[DeadLetter], error) {
		return c.DeadLetterPage(ctx, f, limit, cursor)
	})
}

// DeadLetterPage reads one page of DeadLetters; the first has no cursor.
func (c *Client) DeadLetterPage(
	ctx context.Context, f carillon.DeadFilter, limit int, cursor Cursor,
) (page Page[DeadLetter], err error) {
	p := newParams(cursor, limit)
	if f.Job != 0 {
		p.text("job_id", f.Job.String())
	}
	p.text("type", f.Type)
	p.text("owner", f.Owner)
	p.text("queue", f.Queue)
	for _, key := range slices.Sorted(maps.Keys(f.Labels)) {
		p.Add("label", key+":"+f.Labels[key])
	}
	p.text("error", f.Error)
	if f.Fingerprint != 0 {
		p.text("fingerprint", f.Fingerprint.String())
	}
	p.time("from", f.From)
	p.time("to", f.To)
	err = c.call(ctx, request{method: http.MethodGet, path: deadPath, query: p.Values}, &page)
	return page, err
}

// DeadLetter reads a dead letter with the definition that its run had, the end of its log, and its output.
func (c *Client) DeadLetter(
	ctx context.Context, id carillon.RunID,
) (letter DeadLetterDetail, err error) {
	err = c.call(ctx, request{method: http.MethodGet, path: deadPath + "/" + id.String()}, &letter)
	return letter, err
}

// DeadGroups groups the dead letters by their errors, the most frequent first. It answers with at most limit
// groups (0: the server's choice). With a type it groups only the letters of that type.
func (c *Client) DeadGroups(
	ctx context.Context, ofType string, limit int,
) ([]carillon.DeadGroup, error) {
	p := newParams("", 0)
	p.text("type", ofType)
	if limit > 0 {
		p.text("limit", strconv.Itoa(min(limit, wire.MaxPage)))
	}
	var groups wire.List[carillon.DeadGroup]
	err := c.call(ctx, request{method: http.MethodGet, path: deadPath + "/groups", query: p.Values}, &groups)
	return groups.Items, err
}

// RetryDeadLetter adds a run that repeats a dead letter, and takes the dead letter off the list. It fails if
// the run is not a dead letter, or no longer one: of two callers one gets the new run. A payload that is not
// nil takes the place of the one that the letter had; the old run keeps that. To retry many letters, begin an
// operation of the kind redrive.
func (c *Client) RetryDeadLetter(
	ctx context.Context, id carillon.RunID, payload json.RawMessage,
) (run carillon.Run, err error) {
	ask := request{method: http.MethodPost, path: deadPath + "/" + id.String() + "/retry"}
	if payload != nil {
		ask.body = wire.RunRequest{Payload: payload}
	}
	err = c.write(ctx, ask, &run)
	return run, err
}

const deadPath = "/v1/dead-letters"
