package api

import (
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/waits"
	"github.com/carillon-run/carillon/internal/wire"
)

// nameAhead is how far the due time of a run in progress can be ahead of the clock: a manual run is named by
// the first free millisecond, and the clocks of nodes differ.
const nameAhead = time.Minute

func (s *server) listRuns(w http.ResponseWriter, r *http.Request, q *query) error {
	want := carillon.RunQuery{
		Job: q.job("job_id"), Worker: q.text("worker_id"), From: q.time("due_from"), To: q.time("due_to"),
	}
	q.states("state", &want)
	want.Now = s.Clock.Now()
	if want.States == nil && !slices.Contains(want.Statuses, carillon.StatusPaused) {
		want.Present = true // a million planned runs would hide the few in progress
		if last := want.Now.Add(nameAhead); want.To == 0 || want.To > last {
			want.To = last // otherwise stores would read all planned runs, only to leave them out
		}
	}
	return s.replyRuns(w, r, q, want)
}

func (s *server) listJobRuns(w http.ResponseWriter, r *http.Request, q *query) error {
	job, err := s.job(r)
	if err != nil {
		return err
	}
	want := carillon.RunQuery{Job: job.ID}
	q.states("state", &want)
	want.Now = s.Clock.Now()
	return s.replyRuns(w, r, q, want)
}

func (s *server) replyRuns(w http.ResponseWriter, r *http.Request, q *query, want carillon.RunQuery) error {
	want.Namespace, want.After, want.Limit = namespace(r), q.cursor(), q.limit()
	if q.err != nil {
		return q.err
	}
	found, err := list(s, w, r, func(from carillon.Store) (carillon.RunPage, error) {
		return from.FindRuns(r.Context(), want)
	})
	if err != nil {
		return err
	}
	runs := make([]*carillon.Run, len(found.Runs))
	for i := range found.Runs {
		runs[i] = &found.Runs[i]
	}
	s.giveReasons(r.Context(), runs...)
	return reply(w, http.StatusOK, wire.NewPage(found.Runs, q.nextCursor(found.Next)))
}

// run reads the run that the path names. A run of another namespace is not found.
func (s *server) run(r *http.Request, whole bool) (carillon.Run, error) {
	id, err := carillon.ParseRunID(r.PathValue("id"))
	if err != nil {
		return carillon.Run{}, err
	}
	runs, err := s.Store.Runs(r.Context(), []carillon.RunID{id}, whole)
	if err != nil {
		return carillon.Run{}, err
	}
	if len(runs) == 0 || runs[0].Namespace != namespace(r) {
		return carillon.Run{}, notFound("run " + id.String())
	}
	return runs[0], nil
}

func (s *server) getRun(w http.ResponseWriter, r *http.Request, _ *query) error {
	run, err := s.run(r, true)
	if err != nil {
		return err
	}
	wait := s.waitsFor(r.Context(), &run)
	if wait != nil && wait.Kind == wire.WaitWorker {
		run.Reason = waits.Reason(&run, wait.Text)
	}
	return reply(w, http.StatusOK, wire.RunDetail{Run: run, WaitsFor: wait})
}

func (s *server) cancelRun(w http.ResponseWriter, r *http.Request, _ *query) error {
	id, err := carillon.ParseRunID(r.PathValue("id"))
	if err != nil {
		return err
	}
	return s.write(w, r, showRun, func() (_ carillon.Job, run carillon.Run, err error) {
		run, err = s.Ledger.CancelRun(r.Context(), namespace(r), id)
		return carillon.Job{}, run, err
	})
}

func (s *server) retryRun(w http.ResponseWriter, r *http.Request, _ *query) error {
	id, err := carillon.ParseRunID(r.PathValue("id"))
	if err != nil {
		return err
	}
	show := func(job *carillon.Job, run *carillon.Run) outcome {
		if run.ID == id { // it waited for its next attempt, which can start now: no run was added
			return showRun(job, run)
		}
		return showNew(job, run)
	}
	return s.writeRun(w, r, show, func() (carillon.Run, error) {
		return s.Ledger.RetryRun(r.Context(), namespace(r), id)
	})
}

func (s *server) saveCheckpoint(w http.ResponseWriter, r *http.Request, _ *query) error {
	id, err := carillon.ParseRunID(r.PathValue("id"))
	if err != nil {
		return err
	}
	given := r.Header.Get(wire.FenceHeader)
	fence, err := strconv.ParseInt(given, 10, 64)
	if err != nil || fence < 1 {
		return invalid(wire.FenceHeader, given, "the fence of the attempt, a number; a command finds it in "+
			"CARILLON_FENCE")
	}
	data, err := readBody(w, r, carillon.MaxCheckpoint)
	if err != nil {
		return err
	}
	if len(data) == 0 {
		return invalid("body", "", "a checkpoint of 1 byte to 64 KiB")
	}
	if err := s.Ledger.SaveCheckpoint(r.Context(), namespace(r), id, fence, data); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
