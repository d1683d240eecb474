package check

import (
	"slices"
	"strings"
	"time"

	"github.com/carillon-run/carillon"
)

// AskedReason is the reason of a run whose payload asks it to fail.
const AskedReason = "asked to fail"

// ends checks that each run has one record, that the record is one that the job and the commands explain, and
// that a witness saw each success.
func (j *judge) ends(v *view) {
	for i := range v.records {
		r := &v.records[i]
		if i > 0 && v.records[i-1].ID == r.ID {
			j.found(v, PromiseOccurrence, r.ID, "it has two records")
		}
		if why := unexplainedEnd(v, r); why != "" {
			promise := PromiseUnaccounted
			if !r.State.Ended() {
				promise = PromiseLost
			}
			j.found(v, promise, r.ID, "%s: %s %q", why, r.State, r.Reason)
		}
		if r.State == carillon.StateSucceeded && !v.sawEnd(r) {
			j.found(v, PromiseLost, r.ID, "no witness saw attempt %d end", r.Attempt)
		}
	}
	for _, l := range v.lines {
		if l.Kind == KindStart && v.record(l.Run) == nil {
			j.found(v, PromiseUnaccounted, l.Run, "a witness saw it start, and it has no record")
		}
	}
	if v.job.Every == 0 && v.record(carillon.RunID{Job: v.job.ID, Due: v.job.First}) == nil {
		j.found(v, PromiseLost, carillon.RunID{Job: v.job.ID},
			"it was accepted and has no run at %s", v.job.First)
	}
}

func (v *view) sawEnd(r *Record) bool {
	return slices.ContainsFunc(v.lines, func(l Line) bool {
		return l.Kind == KindEnd && l.Run == r.ID && l.Attempt == r.Attempt
	})
}

// unexplainedEnd says what is odd about how a run ended; empty if nothing is.
func unexplainedEnd(v *view, r *Record) string {
	fails := v.job.Fatal && r.RetryOf == 0
	switch r.State {
	case carillon.StateSucceeded:
		if fails {
			return "its payload asks it to fail"
		}
	case carillon.StateFailed:
		if !fails || r.Reason != AskedReason {
			return "its payload does not ask it to fail"
		}
	case carillon.StateCanceled:
		return unexplainedCancel(v, r)
	case carillon.StateSkipped:
		return unexplainedSkip(v, r)
	default:
		return "it has not ended"
	}
	return ""
}

func unexplainedCancel(v *view, r *Record) string {
	if len(v.said(VerbCancel)) > 0 {
		return ""
	}
	if v.job.Overlap != carillon.OverlapReplace {
		return "no caller canceled it"
	}
	_, by, named := strings.Cut(r.Reason, "replaced by ")
	by, _, _ = strings.Cut(by, ": ") // how the attempt ended can follow
	other, err := carillon.ParseRunID(by)
	replacing := v.record(other)
	switch last := v.records[len(v.records)-1].ID; {
	case named && (err != nil || replacing == nil || other.Due <= r.ID.Due && replacing.byClock() &&
		r.byClock()):
		return "replaced by a run that the job does not have"
	// Its worker was lost before it had stopped: the reason is that of the loss.
	case !named && (r.Losses == 0 || last == r.ID):
		return "no caller canceled it, and no run replaced it"
	}
	return ""
}

func unexplainedSkip(v *view, r *Record) string {
	if v.job.Every == 0 {
		return "a one-off was skipped"
	}
	if r.Reason == "the job was paused" {
		return unexplainedPause(v, r)
	}
	kind, rest, _ := strings.Cut(r.Reason, ": ")
	name, what, _ := strings.Cut(rest, " ")
	if by, replaced := strings.CutPrefix(r.Reason, "replaced by "); replaced {
		kind, name = "replaced", by
	}
	other, err := carillon.ParseRunID(name)
	by := v.record(other)
	if err != nil || other.Job != v.job.ID || by == nil {
		return "skipped for the sake of a run that the job does not have"
	}
	// Between a run that a caller asked for and one that is late the order is that of the decisions.
	manual := !by.byClock() || !r.byClock()
	switch earlier, later := other.Due < r.ID.Due || manual, other.Due > r.ID.Due || manual; {
	case kind == "overlap" && what == "has not ended" && v.job.Overlap == carillon.OverlapSkip && earlier:
	case kind == "overlap" && what == "waits already" && v.job.Overlap == carillon.OverlapQueue && earlier:
	case kind == "missed" && what == "runs in its place" && other.Due > r.ID.Due:
	case kind == "replaced" && v.job.Overlap == carillon.OverlapReplace && later:
	default:
		return "skipped for a reason that its job does not give"
	}
	return ""
}

// unexplainedPause compares a skip with the pauses that callers asked for: it was due before one ended. It
// can have been due before the pause began, if it was late then.
func unexplainedPause(v *view, r *Record) string {
	for _, pause := range v.said(VerbPause) {
		for _, resume := range v.said(VerbResume) {
			if resume.Answered.Mono > pause.Invoked.Mono && (resume.Answer == AnswerUnknown ||
				max(r.Covers, r.Until) <= resume.Answered.Wall.Add(slack)) {
				return ""
			}
		}
	}
	return "no caller had paused the job"
}

// attempts checks that every attempt of an ended run is accounted for: the last one, the losses, and the
// failures that the payload asks for and that a witness saw.
func (j *judge) attempts(v *view) {
	for i := range v.records {
		r := &v.records[i]
		if why := unexplainedAttempts(v, r); why != "" {
			j.found(v, PromiseRetries, r.ID,
				"%s: %d attempts, %d losses, %d failures", why, r.Attempt, r.Losses, r.Failures)
		}
	}
	failed := map[carillon.RunID]Line{}
	for _, l := range v.lines {
		r := v.record(l.Run)
		switch before, is := failed[l.Run]; {
		case r != nil && l.Attempt > r.Attempt:
			j.found(v, PromiseRetries, l.Run, "a witness saw attempt %d of %d", l.Attempt, r.Attempt)
		case l.Kind == KindFail:
			failed[l.Run] = l
		case l.Kind == KindStart && is && l.Attempt == before.Attempt+1:
			j.retryGap(v, before, l)
		}
	}
}

// mostJitter is the share of the delay by which the next attempt of a job with default settings can be put
// off.
const mostJitter = 0.2

// retryGap checks how long a run waited between a failure and its next attempt: not less than its job says,
// and at most a second more if nothing held it up. As for the first start, faults of nodes and of the store
// excuse a delay until some time after them, and so do faults of the worker that saw the failure, and of the
// one that has the next attempt.
func (j *judge) retryGap(v *view, failed, again Line) {
	if j.thawing(failed, failed.Mono) { // it had lost its run: that is no failure, and no delay follows
		return
	}
	waited := again.Mono - failed.Mono
	if waited < v.job.Delay {
		j.found(v, PromiseRetries, again.Run, "attempt %d began %s after a failure, want %s", again.Attempt,
			waited, v.job.Delay)
	}
	if v.job.Every != 0 || len(v.said(VerbPause)) > 0 {
		return
	}
	due := failed.Mono + time.Duration(float64(v.job.Delay)*(1+mostJitter))
	over, excused := j.others.near(failed.Mono-recovery, again.Mono)
	for _, process := range []int32{failed.Process, again.Process} {
		if until, hit := j.hit(process, failed.Mono-recovery, again.Mono); hit {
			over, excused = max(over, until), true
		}
	}
	switch {
	case !excused:
		if !j.onTimeFor(onTime, due, again.Mono) {
			j.found(v, PromiseRetries, again.Run, "attempt %d began %s after a failure, with no fault near",
				again.Attempt, waited)
		}
	case again.Mono-due > onTime:
		j.report.Excused++
		if !j.onTimeFor(recovery, max(over, due), again.Mono) {
			j.found(v, PromiseRetries, again.Run,
				"attempt %d began %s after a failure, %s after the last fault", again.Attempt, waited,
				again.Mono-over)
		}
	}
}

func unexplainedAttempts(v *view, r *Record) string {
	asked := v.job.Fails
	switch {
	case r.State == carillon.StateSucceeded && r.Attempt != r.Losses+r.Failures+1,
		r.State == carillon.StateFailed && r.Attempt != r.Losses+r.Failures:
		return "more attempts than losses and failures explain"
	case r.State == carillon.StateSucceeded &&
		(r.Failures > asked || r.Losses == 0 && r.Failures != asked):
		return "asked to fail another number of times"
	case r.State == carillon.StateFailed && r.Failures != 1:
		return "a fatal failure is the only one"
	}
	witnessed := int32(0)
	for _, l := range v.lines {
		if l.Kind == KindFail && l.Run == r.ID {
			witnessed++
		}
	}
	if v.lines != nil && r.Failures > witnessed && r.State != carillon.StateCanceled {
		return "more failures than witnesses saw"
	}
	return ""
}

// Ends returns what is odd about how the runs of a job ended, without lines of witnesses and commands.
func Ends(job Job, records []Record) (broken []string) {
	j := &judge{History: &History{}, report: Report{count: map[Promise]int{}}}
	v := &view{job: &job, records: records}
	slices.SortFunc(v.records, func(a, b Record) int { return int(a.ID.Due - b.ID.Due) })
	for i := range v.records {
		r := &v.records[i]
		why := unexplainedAttempts(v, r)
		if r.State == carillon.StateSkipped {
			why = unexplainedSkip(v, r)
		}
		if why != "" {
			j.found(v, PromiseUnaccounted, r.ID, "%s: %s %q", why, r.State, r.Reason)
		}
	}
	for _, b := range j.report.Broken {
		broken = append(broken, b.String())
	}
	return broken
}
