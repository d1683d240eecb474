package carillon

import (
	"encoding/json"
	"fmt"
	"time"
)

const (
	maxPauseAfter = 1000
	// pauseKept is how long the record of a one-off job's pauses is kept: the job itself goes with its last
	// run, and takes no record with it.
	pauseKept = 365 * 24 * time.Hour
)

// pauseRecord is the value of the guard of a job with pause_after.
type pauseRecord struct {
	Since  Time   `json:"since,omitzero"`   // runs that ended until then do not count
	Reason string `json:"reason,omitempty"` // why Carillon paused the job; empty: it has not
}

// PauseKey is the key of the guard that says why Carillon paused a job.
func (id JobID) PauseKey() string { return string(GuardPause) + "/" + id.String() }

func pauseRecordOf(g *Guard) (r pauseRecord) {
	if g == nil || len(g.Value) == 0 {
		return r
	}
	if json.Unmarshal(g.Value, &r) != nil { // of another version: then it decides nothing
		return pauseRecord{}
	}
	return r
}

// PauseReason is why Carillon paused a job by itself; empty: the job is not paused, or a caller paused it.
func (j *Job) PauseReason(guards Guards) string {
	if j.State != JobPaused {
		return ""
	}
	return pauseRecordOf(guards.Of(GuardPause)).Reason
}

// PauseFailing pauses an active job whose last PauseAfter runs have failed for good. ended are ended runs of
// the job, the latest due first. Runs that were canceled or skipped say nothing about the job. Runs that
// ended before the job was last edited or resumed do not count: what made them fail may be mended since.
// false: there is no reason to pause it.
func (w JobSnapshot) PauseFailing(ended []Run, now Time) (Change, bool) {
	if w.Job.State != JobActive || w.Job.PauseAfter == 0 {
		return Change{}, false
	}
	since := pauseRecordOf(w.Guards.Of(GuardPause)).Since
	failed, last := int32(0), ""
	for i := range ended {
		run := &ended[i]
		if run.Ended < w.Job.Updated || run.Ended <= since {
			continue
		}
		if run.State != StateFailed && run.State != StateSucceeded {
			continue
		}
		if run.State == StateSucceeded {
			break
		}
		if failed++; failed == 1 {
			last = run.Reason
		}
		if failed == w.Job.PauseAfter {
			c, err := w.Pause(now)
			c.setPause(&w, pauseRecord{
				Since: since, Reason: inARow(failed) + ": " + last,
			}, now)
			return c, err == nil
		}
	}
	return Change{}, false
}

func inARow(failed int32) string {
	if failed == 1 {
		return "its last run failed"
	}
	return fmt.Sprintf("its last %d runs failed, the last one", failed)
}

// resumed lets failures count from now on. A job without pause_after that has no record gets none.
func (c *Change) resumed(w *JobSnapshot, now Time) {
	if w.Job.PauseAfter > 0 || w.Guards.Of(GuardPause) != nil {
		c.setPause(w, pauseRecord{Since: now}, now)
	}
}

func (c *Change) setPause(w *JobSnapshot, r pauseRecord, now Time) {
	guard := Guard{Namespace: w.Job.Namespace, Key: w.Job.ID.PauseKey()}
	if was := w.Guards.Of(GuardPause); was != nil {
		guard.Rev = was.Rev
	}
	guard.Value, _ = json.Marshal(r) // of text
	if !w.Job.Schedule.Recurring() {
		guard.Expires = now.Add(pauseKept)
	}
	c.Guards = append(c.Guards[:len(c.Guards):len(c.Guards)], guard)
}

// dropPause removes the record of a job that is canceled for good.
func (c *Change) dropPause(w *JobSnapshot) {
	if was := w.Guards.Of(GuardPause); was != nil {
		c.Guards = append(c.Guards, Guard{Namespace: was.Namespace, Key: was.Key, Rev: was.Rev})
	}
}
