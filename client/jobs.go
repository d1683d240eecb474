package client

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strconv"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/wire"
)

// JobDetail is a job with its last and next run, ListedJob a job in a list.
type (
	JobDetail = wire.JobDetail
	ListedJob = wire.ListedJob
)

// DueTimes are the coming due times of a job. A DueTime is an instant, and for cron schedules what the clocks
// of the zone show then.
type (
	DueTimes = wire.DueTimes
	DueTime  = wire.DueTime
)

// Changes are fields of a definition by their JSON names, for an edit. The edit replaces schedule, target,
// labels and payload as a whole; in retry, misfire and retention the fields that are not given stay.
type Changes map[string]any

// Submit submits a job; when it returns without an error the job is on disk. The server fills in the defaults
// of fields that are zero: see carillon.Definition. If another job holds the job's unique key, Submit returns
// that one, with Existing set, or ErrConflict: see carillon.Unique. Each call is one request. Where many
// goroutines submit one job each, a Batcher lets them share requests.
func (c *Client) Submit(ctx context.Context, def carillon.Definition) (carillon.Job, error) {
	body, err := wire.MarshalDefinition(&def)
	if err != nil {
		return carillon.Job{}, fmt.Errorf("write the body: %w", err)
	}
	return c.submit(ctx, body)
}

// SubmitJSON submits a job that is already JSON, unchanged. Fields that are not in it take the server's
// defaults.
func (c *Client) SubmitJSON(ctx context.Context, def []byte) (carillon.Job, error) {
	return c.submit(ctx, def)
}

func (c *Client) submit(ctx context.Context, body []byte) (job carillon.Job, err error) {
	err = c.write(ctx, request{method: http.MethodPost, path: "/v1/jobs", body: body}, &job)
	return job, err
}

// SubmitMany submits up to 1000 jobs: all of them, or none if one is not valid, or is refused because of its
// unique key.
func (c *Client) SubmitMany(ctx context.Context, defs []carillon.Definition) ([]carillon.Job, error) {
	list := make([][]byte, len(defs))
	for i := range defs {
		body, err := wire.MarshalDefinition(&defs[i])
		if err != nil {
			return nil, fmt.Errorf("write job %d: %w", i, err)
		}
		list[i] = body
	}
	return c.SubmitManyJSON(ctx, list)
}

// SubmitManyJSON is SubmitMany for jobs that are already JSON.
func (c *Client) SubmitManyJSON(ctx context.Context, defs [][]byte) ([]carillon.Job, error) {
	var answer wire.List[carillon.Job]
	r := request{method: http.MethodPost, path: "/v1/jobs/batch", body: wire.AppendBatch(nil, defs)}
	err := c.write(ctx, r, &answer)
	return answer.Items, err
}

// Job reads a job.
func (c *Client) Job(ctx context.Context, id carillon.JobID) (job JobDetail, err error) {
	err = c.call(ctx, request{method: http.MethodGet, path: jobPath(id)}, &job)
	return job, err
}

// Jobs goes over the matching jobs, newest first. Limit is the size of a page, not of the list; the server
// sets Namespace and Before.
func (c *Client) Jobs(ctx context.Context, q carillon.JobQuery) iter.Seq2[ListedJob, error] {
	return pages(ctx, func(ctx context.Context, cursor Cursor) (Page[ListedJob], error) {
		return c.JobPage(ctx, q, cursor)
	})
}

// JobPage reads one page of Jobs; the first has no cursor.
func (c *Client) JobPage(
	ctx context.Context, q carillon.JobQuery, cursor Cursor,
) (page Page[ListedJob], err error) {
	p := newParams(cursor, q.Limit)
	status := texts(q.States)
	for _, latest := range q.Latest {
		status = append(status, string(latest))
	}
	p.list("status", status)
	p.text("owner", q.Owner)
	p.text("type", q.Type)
	p.text("name", q.Name)
	for _, label := range q.Labels {
		p.Add("label", label.Key+":"+label.Value)
	}
	p.time("created_from", q.CreatedFrom)
	p.time("created_to", q.CreatedTo)
	if q.Parts {
		p.text("parts", "true")
	}
	err = c.call(ctx, request{method: http.MethodGet, path: "/v1/jobs", query: p.Values}, &page)
	return page, err
}

// Edit changes the definition. With a version other than 0 the server refuses the edit (ErrConflict) if that
// is not the current version. A caller that writes back what it has read gives the version, so that it does
// not undo the edit of another caller.
func (c *Client) Edit(
	ctx context.Context, id carillon.JobID, changes Changes, version int32,
) (job carillon.Job, err error) {
	header := http.Header{}
	if version != 0 {
		header.Set("If-Match", strconv.Quote(strconv.Itoa(int(version))))
	}
	err = c.write(
		ctx, request{method: http.MethodPatch, path: jobPath(id), header: header, body: changes}, &job,
	)
	return job, err
}

// Cancel ends the job and its waiting runs. It asks running ones to stop, or with keep lets them run to their
// end.
func (c *Client) Cancel(ctx context.Context, id carillon.JobID, keep bool) (job carillon.Job, err error) {
	query := url.Values{}
	if keep {
		query.Set("running", "keep")
	}
	err = c.write(ctx, request{method: http.MethodDelete, path: jobPath(id), query: query}, &job)
	return job, err
}

// Pause holds the job: no run of it is claimed until the job is resumed.
func (c *Client) Pause(ctx context.Context, id carillon.JobID) (job carillon.Job, err error) {
	err = c.write(ctx, request{method: http.MethodPost, path: jobPath(id) + "/pause"}, &job)
	return job, err
}

// Resume lets the job go on.
func (c *Client) Resume(ctx context.Context, id carillon.JobID) (job carillon.Job, err error) {
	err = c.write(ctx, request{method: http.MethodPost, path: jobPath(id) + "/resume"}, &job)
	return job, err
}

// RunNow adds a run that is due at once. The run gets the payload, or the job's if payload is nil.
func (c *Client) RunNow(
	ctx context.Context, id carillon.JobID, payload json.RawMessage,
) (run carillon.Run, err error) {
	r := request{method: http.MethodPost, path: jobPath(id) + "/run"}
	if payload != nil {
		r.body = wire.RunRequest{Payload: payload}
	}
	err = c.write(ctx, r, &run)
	return run, err
}

// Next reads up to n due times; fewer means that there are no more.
func (c *Client) Next(ctx context.Context, id carillon.JobID, n int) (times DueTimes, err error) {
	query := url.Values{"n": {strconv.Itoa(n)}}
	err = c.call(ctx, request{method: http.MethodGet, path: jobPath(id) + "/next", query: query}, &times)
	return times, err
}

func jobPath(id carillon.JobID) string { return "/v1/jobs/" + id.String() }
