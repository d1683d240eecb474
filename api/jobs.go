package api

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/jobjson"
	"github.com/carillon-run/carillon/internal/wire"
)

func (s *server) submit(w http.ResponseWriter, r *http.Request, _ *query) error {
	// The load counts a body by its announced length, and one without by MaxBody.
	limit := int64(wire.MaxBody)
	if r.ContentLength > limit {
		limit = wire.MaxJobBody
	}
	body, err := readJSON(w, r, limit)
	if err != nil {
		return err
	}
	jobs, err := s.submitJobs(r, func(at carillon.Time) ([]carillon.Definition, error) {
		def, err := jobjson.Define(body, at)
		if err == nil && len(body) > wire.MaxBody && def.Target.Workflow == nil {
			err = tooLarge(wire.MaxBody)
		}
		return []carillon.Definition{def}, err
	})
	if err != nil {
		return err
	}
	s.warn(w, r, jobs...)
	w.Header().Set("Location", "/v1/jobs/"+jobs[0].ID.String())
	return s.replyJob(w, submitStatus(jobs), jobs[0])
}

// submitStatus tells whether a submit made a job.
func submitStatus(jobs []carillon.Job) int {
	if slices.ContainsFunc(jobs, func(job carillon.Job) bool { return !job.Existing }) {
		return http.StatusCreated
	}
	return http.StatusOK
}

func (s *server) submitBatch(w http.ResponseWriter, r *http.Request, _ *query) error {
	body, err := readJSON(w, r, wire.MaxLargeBody)
	if err != nil {
		return err
	}
	var rest part // of the load
	defer func() { s.give(rest) }()
	jobs, err := s.submitJobs(r, func(at carillon.Time) ([]carillon.Definition, error) {
		defs, err := jobjson.DefineBatch(body, at)
		if err != nil || rest.jobs > 0 {
			return defs, err
		}
		more, err := s.enterRest(body, len(defs))
		if err == nil {
			rest = more
		}
		return defs, err
	})
	if err != nil {
		return err
	}
	s.warn(w, r, jobs...)
	for i := range jobs {
		jobs[i] = s.shown(jobs[i])
	}
	return reply(w, submitStatus(jobs), wire.List[carillon.Job]{Items: jobs})
}

// shown returns the job with the values that the server decides for it, and without its secrets.
func (s *server) shown(job carillon.Job) carillon.Job {
	if job.HasSecrets() {
		job.Definition = job.Masked()
	}
	job.Retention = job.Retention.Or(s.Retention)
	return job
}

func (s *server) replyJob(w http.ResponseWriter, status int, job carillon.Job) error {
	w.Header().Set("ETag", etag(job.Version))
	return reply(w, status, s.shown(job))
}

func etag(version int32) string { return strconv.Quote(strconv.Itoa(int(version))) }

var (
	jobStates = []carillon.JobState{
		carillon.JobActive, carillon.JobPaused, carillon.JobFinished, carillon.JobCanceled,
	}
	latestStates = []carillon.LatestState{
		carillon.LatestPending, carillon.LatestRunning, carillon.LatestFailed, carillon.LatestSucceeded,
	}
)

func (s *server) listJobs(w http.ResponseWriter, r *http.Request, q *query) error {
	want := carillon.JobQuery{
		Namespace: namespace(r), Owner: q.text("owner"), Type: q.text("type"), Name: q.text("name"),
		CreatedFrom: q.time("created_from"), CreatedTo: q.time("created_to"), Limit: q.limit(),
		WithLast: true, Parts: q.choice("parts", "false", "true") == "true",
	}
	q.status(&want)
	q.label(&want)
	if after := q.cursor(); after != "" {
		id, err := carillon.ParseJobID(after)
		q.in("cursor", err)
		want.Before = id
	}
	if q.err != nil {
		return q.err
	}
	found, err := list(s, w, r, func(from carillon.Store) (carillon.JobPage, error) {
		return from.FindJobs(r.Context(), want)
	})
	if err != nil {
		return err
	}
	s.giveReasons(r.Context(), found.Last...)
	items := make([]wire.ListedJob, len(found.Jobs))
	for i := range items {
		items[i].Job = s.shown(found.Jobs[i])
		if found.Last != nil {
			items[i].LastRun = found.Last[i]
		}
	}
	next := ""
	if found.Next != 0 {
		next = found.Next.String()
	}
	return reply(w, http.StatusOK, wire.NewPage(items, q.nextCursor(next)))
}

// status accepts states of the job and states of its latest run: people ask for "the failed ones" and do not
// care whose state that is.
func (q *query) status(want *carillon.JobQuery) {
	for _, word := range q.list("status") {
		latest := carillon.LatestState(word)
		i := slices.IndexFunc(jobStates, func(s carillon.JobState) bool { return s.String() == word })
		switch {
		case i >= 0:
			want.States = append(want.States, jobStates[i])
		case slices.Contains(latestStates, latest):
			want.Latest = append(want.Latest, latest)
		default:
			q.fail(
				"status", word,
				"active, paused, finished, canceled, pending, running, failed or succeeded, separated by "+
					"commas",
			)
		}
	}
}

func (q *query) label(want *carillon.JobQuery) {
	for _, given := range q.values["label"] {
		key, value, ok := strings.Cut(given, ":")
		if !ok || key == "" {
			q.fail("label", given, "key:value")
		}
		want.Labels = append(want.Labels, carillon.Label{Key: key, Value: value})
	}
}
