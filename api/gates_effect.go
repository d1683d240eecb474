package api

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/wire"
)

// How far a dry run looks: a person waits for it, and other requests need the store too.
const (
	effectPage = 1000
	effectRuns = 100_000 // runs that are looked at
	effectJobs = 100_000
	effectTime = 5 * time.Second // for each of the three numbers
)

// gateEffect says what a gate would stop.
func (s *server) gateEffect(r *http.Request, match *carillon.GateMatch) (e wire.GateEffect, err error) {
	now := s.Clock.Now()
	due := carillon.RunQuery{States: []carillon.State{carillon.StateWaiting}, To: now + 1}
	if e.Waiting, e.WaitingAtLeast, err = s.matchingRuns(r, match, due); err != nil {
		return e, err
	}
	held := carillon.RunQuery{States: []carillon.State{carillon.StateClaimed, carillon.StateRunning}}
	if e.Running, e.RunningAtLeast, err = s.matchingRuns(r, match, held); err != nil {
		return e, err
	}
	e.Hourly, e.HourlyAtLeast, err = s.hourly(r, match, now)
	return e, err
}

// matchingRuns counts the runs of a query that belong to matching jobs.
func (s *server) matchingRuns(
	r *http.Request, match *carillon.GateMatch, q carillon.RunQuery,
) (n int, atLeast bool, err error) {
	q.Namespace, q.Limit = namespace(r), effectPage
	began, looked := time.Now(), 0
	for {
		page, err := s.Store.FindRuns(r.Context(), q)
		if err != nil {
			return n, false, err
		}
		matching, err := s.countMatching(r, match, page.Runs)
		if err != nil {
			return n, false, err
		}
		n, looked = n+matching, looked+len(page.Runs)
		switch {
		case page.Next == "":
			return n, false, nil
		case looked >= effectRuns || time.Since(began) > effectTime:
			return n, true, nil
		}
		q.After = page.Next
	}
}

func (s *server) countMatching(
	r *http.Request, match *carillon.GateMatch, runs []carillon.Run,
) (n int, err error) {
	if len(match.Labels) > 0 { // which are in the definition only
		candidates, err := s.Ledger.Candidates(r.Context(), runs, "")
		for i := range candidates {
			if match.Matches(candidates[i].Job) {
				n++
			}
		}
		return n, err
	}
	for i := range runs {
		job := carillon.Job{Namespace: runs[i].Namespace}
		job.Queue = runs[i].Queue
		if about := runs[i].About; about != nil {
			job.Type, job.Owner = about.Type, about.Owner
		}
		if match.Matches(&job) {
			n++
		}
	}
	return n, nil
}

// hourly counts the due times in the next hour of the schedules that match.
func (s *server) hourly(
	r *http.Request, match *carillon.GateMatch, now carillon.Time,
) (n int, atLeast bool, err error) {
	q := carillon.JobQuery{
		Namespace: namespace(r), States: []carillon.JobState{carillon.JobActive}, Owner: match.Owner,
		Limit: effectPage,
	}
	if !strings.Contains(match.Type, "*") {
		q.Type = match.Type
	}
	for _, key := range slices.Sorted(maps.Keys(match.Labels)) {
		q.Labels = append(q.Labels, carillon.Label{Key: key, Value: match.Labels[key]})
	}
	began, looked, until := time.Now(), 0, now.Add(time.Hour)
	for {
		page, err := s.Store.FindJobs(r.Context(), q)
		if err != nil {
			return n, false, err
		}
		for i := range page.Jobs {
			job := &page.Jobs[i]
			if !job.Schedule.Recurring() || !match.Matches(job) {
				continue
			}
			job.Schedule.Ready()
			for due := job.Schedule.Next(now); due != 0 && due <= until; due = job.Schedule.Next(due) {
				n++
			}
			if time.Since(began) > effectTime {
				return n, true, nil
			}
		}
		switch looked += len(page.Jobs); {
		case page.Next == 0:
			return n, false, nil
		case looked >= effectJobs:
			return n, true, nil
		}
		q.Before = page.Next
	}
}
