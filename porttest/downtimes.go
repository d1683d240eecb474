package porttest

import (
	"time"

	"github.com/carillon-run/carillon"
)

// hourly makes a job run every hour, with the given policy after downtime.
func hourly(m carillon.Misfire) func(*carillon.Definition) {
	return func(d *carillon.Definition) {
		d.Schedule.Every, d.Misfire = carillon.Duration(time.Hour), m
	}
}

func misfire(policy carillon.MisfirePolicy) carillon.Misfire {
	return carillon.Misfire{Policy: policy, Max: 3, Window: carillon.Duration(24 * time.Hour)}
}

// downtimes are scenarios in which the whole system is down for a while.
var downtimes = []scenario{
	{
		"misfire once: after downtime the last due time runs, late, and the others are one record",
		func(h *House) {
			job := h.Submit(hourly(misfire(carillon.MisfireOnce)))
			time.Sleep(30 * time.Minute)
			h.Down(5 * time.Hour) // 1:00 to 5:00 pass
			time.Sleep(time.Minute)
			h.expectLike(job.ID, "waiting", "succeeded", "skipped in its place")
			if skip := h.Runs(job.ID)[2]; skip.Until.Sub(skip.ID.Due) != 3*time.Hour {
				h.T.Errorf("the skip covers %s to %s, want 3 hours", skip.ID.Due, skip.Until)
			}
		},
	},
	{"misfire skip: after downtime nothing runs before the next due time", func(h *House) {
		job := h.Submit(hourly(misfire(carillon.MisfireSkip)))
		time.Sleep(30 * time.Minute)
		h.Down(5 * time.Hour)
		time.Sleep(time.Minute)
		h.expectLike(job.ID, "waiting", "skipped missed")
		if skip := h.Runs(job.ID)[1]; skip.Until.Sub(skip.ID.Due) != 4*time.Hour {
			h.T.Errorf("the skip covers %s to %s, want 4 hours", skip.ID.Due, skip.Until)
		}
	}},
	{"misfire all: after downtime each runs, up to the cap, one after another", func(h *House) {
		h.Handle = sleepFor(time.Minute)
		job := h.Submit(hourly(misfire(carillon.MisfireAll)))
		time.Sleep(30 * time.Minute)
		h.Down(5 * time.Hour)
		time.Sleep(10 * time.Minute)
		h.expectLike(job.ID, "waiting", "succeeded", "succeeded", "succeeded", "skipped in its place")
	}},
	{"misfire: a one-off that was missed runs late, or not at all if it says so", func(h *House) {
		late := h.Submit(func(d *carillon.Definition) { d.Schedule.After = carillon.Duration(time.Hour) })
		never := h.Submit(func(d *carillon.Definition) {
			d.Schedule.After, d.Misfire = carillon.Duration(time.Hour), misfire(carillon.MisfireSkip)
		})
		time.Sleep(30 * time.Minute)
		h.Down(5 * time.Hour)
		time.Sleep(time.Minute)
		h.expect(late.ID, "succeeded 1")
		h.expectLike(never.ID, "skipped missed")
	}},
	{"ten years of downtime cost no more than an hour", func(h *House) {
		job := h.Submit(func(d *carillon.Definition) { d.Schedule.Cron = "* * * * *" })
		h.Down(10 * 365 * 24 * time.Hour)
		time.Sleep(30 * time.Second)
		if runs := h.Runs(job.ID); runs[1].State != carillon.StateSucceeded || len(runs) != 3 {
			h.T.Errorf("runs: %v", runs)
		}
	}},
	{"a stop hands back what does not end in time, without costing a failure", func(h *House) {
		h.Handle = untilStopped
		job := h.Submit(nil)
		time.Sleep(time.Second)
		h.stop()
		run := h.Runs(job.ID)[0]
		if run.State != carillon.StateWaiting || run.Failures != 0 || run.Losses != 1 {
			h.T.Errorf("handed back: %s, %d failures, %d losses", run.State, run.Failures, run.Losses)
		}
		h.Handle = nil
		h.Live(8)
		time.Sleep(time.Second)
		h.expect(job.ID, "succeeded 2")
	}},
}
