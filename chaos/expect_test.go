package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/chaos/check"
	"github.com/carillon-run/carillon/client"
	"github.com/carillon-run/carillon/worker/protocol"
)

// quick keeps no connections: the next answer can come from another process.
var quick = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

var unfinished = []carillon.State{carillon.StateWaiting, carillon.StateClaimed, carillon.StateRunning}

// lines are what the bodies have written so far.
func (c *cluster) lines() []check.Line {
	c.t.Helper()
	return read(c.t, c.witness)
}

// started waits until the bodies of runs have begun an attempt of at least that number, and returns when each
// did.
func (c *cluster) started(attempt int32, runs ...carillon.RunID) map[carillon.RunID]carillon.Time {
	c.t.Helper()
	var began map[carillon.RunID]carillon.Time
	poll(c.t, c.ctx, "runs to start", func() bool {
		began = map[carillon.RunID]carillon.Time{}
		of := map[carillon.RunID]bool{}
		for _, id := range runs {
			of[id] = true
		}
		for _, l := range c.lines() {
			if l.Kind == check.KindStart && l.Attempt >= attempt && of[l.Run] && began[l.Run] == 0 {
				began[l.Run] = l.At
			}
		}
		return len(began) == len(runs)
	})
	return began
}

// silent waits until a lease that was last prolonged at a given time must be over and no body has written
// anything for a second, and returns the time of the last line. It waits for the lease because on a busy
// machine bodies can be silent for a moment before that.
func (c *cluster) silent(prolonged carillon.Time) carillon.Time {
	c.t.Helper()
	var at carillon.Time
	poll(c.t, c.ctx, "the bodies to be silent", func() bool {
		for _, l := range c.lines() {
			at = max(at, l.At)
		}
		now := carillon.Now()
		return now.Sub(prolonged) > protocol.LeaseTime+time.Second && now.Sub(at) > time.Second
	})
	return at
}

// said looks for a text in the log of a process.
func (c *cluster) said(name, words string) bool {
	b, _ := os.ReadFile(c.log(name).Name())
	return bytes.Contains(b, []byte(words))
}

// get reads a run.
func (c *cluster) get(id carillon.RunID) (run carillon.Run) {
	c.t.Helper()
	c.insist(func(ctx context.Context, api *client.Client) error {
		detail, err := api.Run(ctx, id)
		run = detail.Run
		return err
	})
	return run
}

// ended waits until the runs have ended and returns them.
func (c *cluster) ended(ids ...carillon.RunID) (runs []carillon.Run) {
	c.t.Helper()
	for _, id := range ids {
		run := c.get(id)
		for ; !run.State.Ended(); run = c.get(id) {
			if c.ctx.Err() != nil {
				c.t.Fatalf("has not ended: %s", row(run))
			}
			last(c.ctx, 100*time.Millisecond)
		}
		runs = append(runs, run)
	}
	return runs
}

// row is the whole record of a run.
func row(run carillon.Run) string {
	b, _ := json.Marshal(run)
	return string(b)
}

// settled waits until no run is unfinished.
func (c *cluster) settled() {
	c.t.Helper()
	for {
		var open []carillon.Run
		c.insist(func(ctx context.Context, api *client.Client) error {
			open = nil
			for run, err := range api.Runs(ctx, carillon.RunQuery{States: unfinished, Limit: 5}) {
				if open = append(open, run); err != nil || len(open) == 5 {
					return err
				}
			}
			return nil
		})
		if len(open) == 0 {
			return
		}
		if c.ctx.Err() != nil {
			for _, run := range open {
				c.t.Errorf("has not ended: %s", row(run))
			}
			c.t.FailNow()
		}
		last(c.ctx, 100*time.Millisecond)
	}
}

// all waits until no run is unfinished and returns every run.
func (c *cluster) all() map[carillon.RunID]carillon.Run {
	c.t.Helper()
	c.settled()
	runs := map[carillon.RunID]carillon.Run{}
	all(c, func(api *client.Client, cursor client.Cursor) (client.Page[carillon.Run], error) {
		return api.RunPage(c.ctx, carillon.RunQuery{Limit: 1000}, cursor)
	}, func(run carillon.Run) {
		if before, twice := runs[run.ID]; twice {
			c.t.Errorf("ended twice: %s and %s", row(before), row(run))
		}
		runs[run.ID] = run
	})
	return runs
}

// complete checks that every accepted job ran as often as it should.
func (c *cluster) complete(accepted []carillon.Job, runs map[carillon.RunID]carillon.Run) {
	c.t.Helper()
	succeeded, failed := map[carillon.JobID]int{}, map[carillon.JobID]int{}
	for id, run := range runs {
		switch run.State {
		case carillon.StateSucceeded:
			succeeded[id.Job]++
		case carillon.StateFailed:
			failed[id.Job]++
			if run.Reason != errAsked.Error() {
				c.t.Errorf("failed: %s", row(run))
			}
		case carillon.StateSkipped: // see explained
		default:
			c.t.Errorf("ended as %s: %s", run.State, row(run))
		}
	}
	for _, job := range accepted {
		work := workOf(job)
		want, got := max(job.Schedule.MaxRuns, 1), succeeded[job.ID]
		if work.Fatal {
			got = failed[job.ID]
		}
		if got != want {
			c.t.Errorf(
				"lost: %s (%s) was accepted at %s and ran %d times, want %d", job.ID, job.Type, job.Created,
				got, want,
			)
		}
	}
	for _, broken := range explained(accepted, runs) {
		c.t.Error(broken)
	}
}

func workOf(job carillon.Job) (work Work) {
	_ = json.Unmarshal(job.Payload, &work) // commands have none
	return work
}

// explained checks that every skip of an accepted job has a reason that agrees with the job's definition and
// its other runs, and that every attempt is accounted for: the last one, the losses, and the failures that
// the payload asks for.
func explained(accepted []carillon.Job, runs map[carillon.RunID]carillon.Run) (broken []string) {
	records := map[carillon.JobID][]check.Record{}
	for _, run := range runs {
		records[run.ID.Job] = append(records[run.ID.Job], check.RecordOf(&run))
	}
	for _, job := range accepted {
		work := workOf(job)
		of := check.Job{
			ID: job.ID, Every: job.Schedule.Every.Std(), Overlap: job.Overlap, Fails: work.Fails,
			Fatal: work.Fatal,
		}
		broken = append(broken, check.Ends(of, records[job.ID])...)
	}
	return broken
}

// truthful checks the promises against the lines of the bodies, and the records against these lines.
func (c *cluster) truthful(runs map[carillon.RunID]carillon.Run) []check.Line {
	c.t.Helper()
	lines := c.lines()
	seen := map[carillon.RunID]bool{}
	for _, l := range lines {
		seen[l.Run] = seen[l.Run] || l.Kind == check.KindEnd
		if run, known := runs[l.Run]; known && l.Attempt > run.Attempt {
			c.t.Errorf("a witness saw attempt %d: %s", l.Attempt, row(run))
		}
	}
	for _, broken := range check.Lines(lines) {
		c.t.Error(broken)
	}
	for id, run := range runs {
		unattended := run.Worker == carillon.Unattended || run.Attempt == 0 // no body performs it
		if run.State == carillon.StateSucceeded && !seen[id] && !unattended {
			c.t.Errorf("no witness saw it end: %s", row(run))
		}
	}
	return lines
}
