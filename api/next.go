package api

import (
	"net/http"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/wire"
)

func (s *server) nextTimes(w http.ResponseWriter, r *http.Request, q *query) error {
	n := q.number("n", 10, wire.MaxPage)
	if q.err != nil {
		return q.err
	}
	job, err := s.job(r)
	if err != nil {
		return err
	}
	var planned *carillon.Run
	err = s.eachRun(r.Context(), ofJob(job, carillon.StateWaiting), func(run carillon.Run) bool {
		if run.ByClock() && run.Attempt == 0 && !run.Has(carillon.FlagPlanned) {
			planned = &run
		}
		return planned == nil
	})
	if err != nil {
		return err
	}
	answer := wire.DueTimes{Items: []wire.DueTime{}}
	if planned != nil {
		answer = inZone(&job.Schedule, upcoming(&job, planned, s.Clock.Now(), n))
	}
	return reply(w, http.StatusOK, answer)
}

// upcoming returns the next n due times, beginning with the planned run. The planned run also tells how many
// of max_runs are left.
func upcoming(job *carillon.Job, planned *carillon.Run, now carillon.Time, n int) []carillon.Time {
	schedule := &job.Schedule
	if most := schedule.MaxRuns; most > 0 {
		n = min(n, most-int(planned.Seq))
	}
	due := planned.ID.Due
	// skipped when the job is resumed
	if job.State == carillon.JobPaused && schedule.Recurring() && due <= now {
		due = schedule.Next(now)
	}
	var times []carillon.Time
	for len(times) < n && due != 0 {
		times = append(times, due)
		due = schedule.Next(max(due, now))
	}
	return times
}

func inZone(schedule *carillon.Schedule, times []carillon.Time) wire.DueTimes {
	answer := wire.DueTimes{Items: []wire.DueTime{}}
	var zone *time.Location
	if schedule.Cron != "" {
		zone, _ = time.LoadLocation(schedule.Timezone) // checked when the job was admitted
		answer.Timezone = schedule.Timezone
	}
	for _, t := range times {
		item := wire.DueTime{Due: t}
		if zone != nil {
			local := t.Std().In(zone)
			item.Local, item.Offset = local.Format("2006-01-02T15:04:05.000-07:00"), local.Format("-07:00")
		}
		answer.Items = append(answer.Items, item)
	}
	return answer
}
