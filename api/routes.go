package api

import (
	"encoding/json"
	"net/http"
	"slices"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/wire"
)

type handler = func(w http.ResponseWriter, r *http.Request, q *query) error

var paging = []param{
	{"cursor", "the next_cursor of the page before, with the same other parameters", nil},
	{"limit", "the most items of a page, 1 to 1000, default 100", 0},
}

var stateParam = param{"state", runWords + "; several separated by commas", nil}

// table lists every route. The POST of an action answers with the job or run that it changed or added.
func (s *server) table() []route {
	return slices.Concat(
		s.jobRoutes(), s.jobActions(), s.runRoutes(), s.runActions(), s.workflowRoutes(), s.deadRoutes(),
		s.operationRoutes(), s.workerRoutes(), s.queueRoutes(), s.namespaceRoutes(), s.limitRoutes(),
		s.gateRoutes(), s.refusedRoutes(), s.otherRoutes(),
	)
}

func (s *server) jobRoutes() []route {
	var job carillon.Job
	return []route{
		{
			Method: "POST", Pattern: "/v1/jobs",
			Summary: "Submit a job (201); if a job with its unique key exists, get that one (200)",
			Takes:   carillon.Definition{}, Status: 201, Or: 200, Gives: job, Adds: true, Keyed: true,
			handle: s.submit,
		},
		{
			Method: "POST", Pattern: "/v1/jobs/batch",
			Summary: "Submit up to 1000 jobs (201, or 200 if all of them exist already); if one is not " +
				"valid, the server refuses all",
			Takes: wire.Batch{}, Status: 201, Or: 200, Gives: wire.List[carillon.Job]{}, Adds: true,
			Keyed: true, handle: s.submitBatch,
		},
		{
			Method: "GET", Pattern: "/v1/jobs", Summary: "List jobs, newest first", Query: append([]param{
				{
					"status",
					"states of the job: active, paused, finished, canceled; states of its latest run: " +
						"pending, running, failed, succeeded. Several separated by commas", nil,
				},
				{"owner", "exactly this owner", nil},
				{"type", "exactly this type", nil},
				{"name", "exactly this name", nil},
				{"label", "key:value, exactly this label; given several times, all of them", []string{}},
				{"created_from", "created at or after this time", job.Created},
				{"created_to", "created before this time", job.Created},
				{"parts", "true: jobs of the nodes of workflows too; without it they are listed only by " +
					"their label " + carillon.WorkflowLabel, false},
			}, paging...),
			Status: 200, Gives: wire.Page[wire.ListedJob]{}, handle: s.listJobs,
		},
		{
			Method: "GET", Pattern: "/v1/jobs/{id}", Summary: "Read a job with its last and next run",
			Status: 200, Gives: wire.JobDetail{}, handle: s.getJob,
		},
		{
			Method: "PATCH", Pattern: "/v1/jobs/{id}",
			Summary: "Edit a job: change the given fields, keep the others",
			Headers: []param{
				{"If-Match", "the version to edit, as in the ETag; the server refuses the edit if the job " +
					"has another version", nil},
			},
			Takes: carillon.Definition{}, Status: 200, Gives: job, Keyed: true, handle: s.editJob,
		},
		{
			Method: "DELETE", Pattern: "/v1/jobs/{id}", Summary: "Cancel a job and its waiting runs",
			Query:  []param{{"running", "what happens to running runs: stop (default) or keep", nil}},
			Status: 200, Gives: job, Keyed: true, handle: s.cancelJob,
		},
	}
}

func (s *server) jobActions() []route {
	var job carillon.Job
	return []route{
		{
			Method: "POST", Pattern: "/v1/jobs/{id}/pause",
			Summary: "Pause a job: none of its runs starts until the job is resumed",
			Status:  200, Gives: job, Keyed: true, handle: s.onJob(s.Ledger.PauseJob),
		},
		{
			Method: "POST", Pattern: "/v1/jobs/{id}/resume", Summary: "Resume a paused job",
			Status: 200, Gives: job, Keyed: true, handle: s.onJob(s.Ledger.ResumeJob),
		},
		{
			Method: "POST", Pattern: "/v1/jobs/{id}/run",
			Summary: "Run a job now, besides its schedule; a given payload is for this run only",
			Takes:   wire.RunRequest{}, MayTake: true, Status: 201, Gives: carillon.Run{}, Adds: true,
			Keyed: true, handle: s.runNow,
		},
		{
			Method: "GET", Pattern: "/v1/jobs/{id}/next", Summary: "Show the next due times of a job",
			Query:  []param{{"n", "number of due times, 1 to 1000, default 10", 0}},
			Status: 200, Gives: wire.DueTimes{}, handle: s.nextTimes,
		},
		{
			Method: "GET", Pattern: "/v1/jobs/{id}/runs", Summary: "List the runs of a job, latest due first",
			Query:  append([]param{stateParam}, paging...),
			Status: 200, Gives: wire.Page[carillon.Run]{}, handle: s.listJobRuns,
		},
	}
}

func (s *server) runRoutes() []route {
	var run carillon.Run
	return []route{
		{
			Method: "GET", Pattern: "/v1/runs",
			Summary: "List runs: the unfinished by due time, then the ended, latest first",
			Query: append([]param{
				{"job_id", "only runs of this job", run.ID.Job},
				{
					"state", stateParam.About + ". Without it, runs that are due in the future are left out",
					nil,
				},
				{"worker_id", "runs that this worker holds, or held last", nil},
				{"due_from", "due at or after this time", run.ID.Due},
				{"due_to", "due before this time", run.ID.Due},
			}, paging...),
			Status: 200, Gives: wire.Page[carillon.Run]{}, handle: s.listRuns,
		},
		{
			Method: "GET", Pattern: "/v1/runs/{id}",
			Summary: "Read a run with its result, checkpoint and own payload, and what it waits for",
			Status:  200, Gives: wire.RunDetail{}, handle: s.getRun,
		},
		{
			Method: "GET", Pattern: "/v1/runs/{id}/attempts",
			Summary: "List the attempts of a run, the first one first", Query: paging,
			Status: 200, Gives: wire.Page[carillon.Attempt]{}, handle: s.listAttempts,
		},
	}
}

func (s *server) runActions() []route {
	var run carillon.Run
	return []route{
		{
			Method: "POST", Pattern: "/v1/runs/{id}/cancel",
			Summary: "Cancel a waiting run, or ask a running one to stop",
			Status:  200, Gives: run, Keyed: true, handle: s.cancelRun,
		},
		{
			Method: "POST", Pattern: "/v1/runs/{id}/retry",
			Summary: "Repeat an ended run with a new run (201), or start the next attempt of a waiting run " +
				"now (200)",
			Status: 201, Or: 200, Gives: run, Keyed: true, handle: s.retryRun,
		},
		{
			Method: "PUT", Pattern: "/v1/runs/{id}/checkpoint",
			Summary: "Save a checkpoint for the next attempt",
			Headers: []param{{wire.FenceHeader, "the fence of the attempt; required", nil}},
			Takes:   raw{}, Status: 204, handle: s.saveCheckpoint,
		},
		{
			Method: "GET", Pattern: "/v1/runs/{id}/logs",
			Summary: "Show what a run printed, as text or, with Accept: application/json, as items",
			Query: []param{
				{"follow", "true: send lines as they come until the run has ended", nil},
				{"attempt", "only lines of this attempt, from 1", 0},
				{"tail", "only this number of last lines, from at most the last 100 attempts", 0},
				{"since", "only lines that were printed at this time or later", carillon.Time(0)},
				{"after", "only lines after the one of this attempt and offset, such as 1:41", nil},
			},
			Status: 200, Gives: wire.List[carillon.Line]{}, handle: s.getLogs,
		},
	}
}

func (s *server) otherRoutes() []route {
	return []route{
		{
			Method: "GET", Pattern: "/v1/openapi.json", Summary: "Show this description",
			Status: 200, Gives: json.RawMessage{}, handle: s.openAPI,
		},
		{
			Method: "GET", Pattern: "/healthz", Summary: "Say whether the process answers", Public: true,
			Status: 200, Gives: wire.Status{}, handle: s.healthz,
		},
		{
			Method: "GET", Pattern: "/readyz",
			Summary: "Say whether the server can take jobs; 503 with the reasons if it cannot", Public: true,
			Status: 200, Gives: wire.Status{}, handle: s.readyz,
		},
		{
			Method: "GET", Pattern: "/metrics", Summary: "Show metrics in the text format of Prometheus",
			Status: 200, Gives: raw{}, handle: s.metrics,
		},
	}
}
