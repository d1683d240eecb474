package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/jobjson"
	"github.com/carillon-run/carillon/internal/wire"
)

// job reads the job that the path names. A job of another namespace is not found.
func (s *server) job(r *http.Request) (carillon.Job, error) {
	id, err := carillon.ParseJobID(r.PathValue("id"))
	if err != nil {
		return carillon.Job{}, err
	}
	jobs, err := s.Store.Jobs(r.Context(), []carillon.JobVersion{{Job: id}})
	if err != nil {
		return carillon.Job{}, err
	}
	if len(jobs) == 0 || jobs[0].Namespace != namespace(r) {
		return carillon.Job{}, notFound("job " + id.String())
	}
	return jobs[0], nil
}

func (s *server) getJob(w http.ResponseWriter, r *http.Request, _ *query) error {
	job, err := s.job(r)
	if err != nil {
		return err
	}
	view, err := s.view(r.Context(), job)
	if err != nil {
		return err
	}
	s.giveReasons(r.Context(), view.LastRun, view.NextRun)
	w.Header().Set("ETag", etag(job.Version))
	return reply(w, http.StatusOK, view)
}

// view adds the runs that people look for first. Unfinished runs also tell whether an active job is finished.
func (s *server) view(ctx context.Context, job carillon.Job) (wire.JobDetail, error) {
	view := wire.JobDetail{Job: s.shown(job)}
	if job.State == carillon.JobPaused {
		guards, err := s.Store.Guards(ctx, carillon.GuardQuery{
			Namespace: job.Namespace, Keys: []string{job.ID.PauseKey()},
		})
		if err != nil {
			return view, err
		}
		view.Reason = job.PauseReason(guards)
	}
	var unfinished []carillon.Run
	err := s.eachRun(ctx, ofJob(job, carillon.StateWaiting, carillon.StateClaimed, carillon.StateRunning),
		func(run carillon.Run) bool {
			unfinished = append(unfinished, run)
			// latest due first, so the last one seen is the first one due
			if run.State == carillon.StateWaiting {
				view.NextRun = &run
			}
			return true
		})
	if err != nil {
		return view, err
	}
	view.State = job.StateOf(unfinished)
	ended := ofJob(job, carillon.StateSucceeded, carillon.StateFailed, carillon.StateCanceled)
	ended.Limit = 10
	begun := unfinished
	var last *carillon.Run
	err = s.eachRun(ctx, ended, func(run carillon.Run) bool {
		if run.Attempt == 0 { // canceled before it began
			return true
		}
		last, begun = &run, append(begun, run)
		return false
	})
	if last = carillon.LastOf(unfinished, last); last != nil {
		i := slices.IndexFunc(begun, func(run carillon.Run) bool { return run.ID == last.ID })
		view.LastRun = &begun[i] // with its name, which LastOf leaves out
	}
	return view, err
}

func ofJob(job carillon.Job, states ...carillon.State) carillon.RunQuery {
	return carillon.RunQuery{Namespace: job.Namespace, Job: job.ID, States: states, Limit: wire.MaxPage}
}

// maxPages bounds how many pages of a job's own runs one request reads: 20,000 unfinished runs are more than
// a job has.
const maxPages = 20

// eachRun calls each for the runs of all pages until it returns false.
func (s *server) eachRun(ctx context.Context, q carillon.RunQuery, each func(carillon.Run) bool) error {
	for range maxPages {
		found, err := s.Store.FindRuns(ctx, q)
		if err != nil {
			return err
		}
		for _, run := range found.Runs {
			if !each(run) {
				return nil
			}
		}
		if found.Next == "" {
			return nil
		}
		q.After = found.Next
	}
	return nil
}

// editJob decodes the body over the present definition. If another edit of the job comes between, the ledger
// has it decoded again over the new definition.
func (s *server) editJob(w http.ResponseWriter, r *http.Request, _ *query) error {
	body, err := readJSON(w, r, wire.MaxBody)
	if err != nil {
		return err
	}
	return s.write(w, r, s.showJob, func() (job carillon.Job, _ carillon.Run, err error) {
		job, err = s.edit(r, body)
		return job, carillon.Run{}, err
	})
}

func (s *server) edit(r *http.Request, body []byte) (carillon.Job, error) {
	job, err := s.job(r)
	if err != nil {
		return job, err
	}
	same, err := ifMatch(r, job)
	if err != nil {
		return job, err
	}
	return s.Ledger.EditJob(r.Context(), namespace(r), job.ID, func(def *carillon.Definition) error {
		if !same(def) {
			return mismatch("another request edited it just now")
		}
		was := *def
		if err := jobjson.Decode(body, def); err != nil {
			return err
		}
		return def.AdmitEdit(&was, s.Clock.Now())
	})
}

// ifMatch returns a function that says whether a definition is the one that If-Match names. The ledger gives
// an edit the present definition but not its version. So the function compares that definition with the
// definition of the requested version, and no edit between the two goes unnoticed.
func ifMatch(r *http.Request, job carillon.Job) (same func(*carillon.Definition) bool, err error) {
	given := r.Header.Get("If-Match")
	if given == "" || given == "*" {
		return func(*carillon.Definition) bool { return true }, nil
	}
	version, err := strconv.ParseUint(strings.Trim(given, `"`), 10, 31)
	if err != nil {
		return nil, invalid("If-Match", given, `one version as in the ETag, such as "3", or *`)
	}
	if int32(version) != job.Version {
		return nil, mismatch(fmt.Sprintf(
			"If-Match names version %d, but the job has version %d", version, job.Version,
		))
	}
	before, err := json.Marshal(job.Definition)
	return func(def *carillon.Definition) bool {
		now, err := json.Marshal(def)
		return err == nil && bytes.Equal(before, now)
	}, err
}

func mismatch(detail string) error {
	return problem{
		Type: "version-mismatch", Title: "Another version", Status: http.StatusPreconditionFailed,
		Detail: detail,
	}
}

func (s *server) cancelJob(w http.ResponseWriter, r *http.Request, q *query) error {
	keep := q.choice("running", "stop", "keep") == "keep"
	if q.err != nil {
		return q.err
	}
	id, err := carillon.ParseJobID(r.PathValue("id"))
	if err != nil {
		return err
	}
	return s.write(w, r, s.showJob, func() (job carillon.Job, _ carillon.Run, err error) {
		job, err = s.Ledger.CancelJob(r.Context(), namespace(r), id, keep)
		return job, carillon.Run{}, err
	})
}

// onJob returns the handler of a route that does one thing to the job in its path.
func (s *server) onJob(do func(ctx context.Context, namespace string, id carillon.JobID) (
	carillon.Job, error,
),
) handler {
	return func(w http.ResponseWriter, r *http.Request, _ *query) error {
		id, err := carillon.ParseJobID(r.PathValue("id"))
		if err != nil {
			return err
		}
		return s.write(w, r, s.showJob, func() (job carillon.Job, _ carillon.Run, err error) {
			job, err = do(r.Context(), namespace(r), id)
			return job, carillon.Run{}, err
		})
	}
}

func (s *server) runNow(w http.ResponseWriter, r *http.Request, _ *query) error {
	id, err := carillon.ParseJobID(r.PathValue("id"))
	if err != nil {
		return err
	}
	var want wire.RunRequest
	if err := readOptional(w, r, &want); err != nil {
		return err
	}
	return s.writeRun(w, r, showNew, func() (carillon.Run, error) {
		return s.Ledger.RunNow(r.Context(), namespace(r), id, want.Payload)
	})
}
