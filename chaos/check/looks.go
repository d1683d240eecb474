package check

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/carillon-run/carillon"
)

// Look is what a node answered when a caller asked for a run, or for a job if Run has no due time.
type Look struct {
	Node                      string // its address
	Run                       carillon.RunID
	RunState                  carillon.State    // 0: the node knew no such run
	JobState                  carillon.JobState // 0: the node knew no such job
	Reason                    string
	Attempt, Failures, Losses int32
	Version                   int32 // of the job
	Asked, Answered           time.Duration
}

func (l *Look) ofJob() bool { return l.Run.Due == 0 }

func (l *Look) String() string {
	switch {
	case l.ofJob() && l.JobState == 0:
		return "that there is no such job"
	case l.ofJob():
		return fmt.Sprintf("job %s, version %d", l.JobState, l.Version)
	case l.RunState == 0:
		return "that there is no run " + l.Run.String()
	}
	return fmt.Sprintf(
		"%s %s %q, attempt %d, %d losses, %d failures", l.Run, l.RunState, l.Reason, l.Attempt, l.Losses,
		l.Failures,
	)
}

// rank is how far a run has come. An attempt goes through three steps: claimed, running, and waiting for the
// next one. A run that was never claimed waits after attempt 0.
func (l *Look) rank() int32 {
	if l.RunState.Ended() {
		return 1 << 30
	}
	switch step := 3 * l.Attempt; l.RunState {
	case carillon.StateClaimed:
		return step
	case carillon.StateRunning:
		return step + 1
	default:
		return step + 2
	}
}

// looks checks what nodes said about a job and its runs meanwhile. An answer must be at least as new as every
// answer, every line of a body and every answered command before the question. It must not say what happened
// only later. What it says about an ended run must be the record.
func (j *judge) looks(v *view) {
	for i := range v.looks {
		l := &v.looks[i]
		why := ""
		switch {
		case l.ofJob() && l.JobState == 0 || !l.ofJob() && l.RunState == 0:
			why = "there is one"
		case l.ofJob():
			why = cmp.Or(v.oddJob(l), v.disobeyed(l))
		default:
			why = cmp.Or(v.oddRun(l), impossible(l))
			if !l.RunState.Ended() {
				j.report.Open++
			}
		}
		if why = cmp.Or(why, v.older(l)); why != "" {
			j.found(v, PromiseStates, l.Run, "%s said %s: %s", l.Node, l, why)
		}
	}
	j.report.Looks += len(v.looks)
}

// older says that an answer had come before the question which was newer than this one.
func (v *view) older(l *Look) string {
	for i := range v.looks {
		o := &v.looks[i]
		if o.Run != l.Run || o.Answered >= l.Asked {
			continue
		}
		if l.ofJob() && (o.Version > l.Version || v.wentBack(o.JobState, l)) ||
			!l.ofJob() && o.rank() > l.rank() {
			return fmt.Sprintf("%s before that %s had said %s", l.Asked-o.Answered, o.Node, o)
		}
	}
	return ""
}

// wentBack says that no command leads from a state of a job to what a node said later.
func (v *view) wentBack(from carillon.JobState, l *Look) bool {
	switch from {
	case carillon.JobCanceled:
		return l.JobState != from
	case carillon.JobPaused:
		return (l.JobState == carillon.JobActive || l.JobState == carillon.JobFinished) &&
			!v.asked(VerbResume, l)
	case carillon.JobFinished:
		return l.JobState == carillon.JobActive && !v.revived()
	}
	return false
}

// revived says that a caller asked for a run, or changed the job: a job that has finished can go on after
// that.
func (v *view) revived() bool {
	return len(v.said(VerbRunNow))+len(v.said(VerbRedrive))+len(v.said(VerbEdit)) > 0
}

// impossible says that the attempts of a run do not add up.
func impossible(l *Look) string {
	over := l.Losses + l.Failures
	if l.RunState == carillon.StateWaiting && l.Attempt != over || l.RunState.Held() && l.Attempt != over+1 {
		return "its attempts are not its losses and its failures"
	}
	return ""
}

// oddRun compares an answer about a run with its record, its body and the commands of callers.
func (v *view) oddRun(l *Look) string {
	r := v.record(l.Run)
	switch {
	case r == nil:
		return "it has no record"
	case l.Attempt > r.Attempt || l.Losses > r.Losses || l.Failures > r.Failures:
		return fmt.Sprintf("its record has %d, %d and %d", r.Attempt, r.Losses, r.Failures)
	case l.RunState.Ended() && (r.State != l.RunState || r.Reason != l.Reason || r.Attempt != l.Attempt ||
		r.Losses != l.Losses || r.Failures != l.Failures):
		return "its record is another one"
	case l.RunState == carillon.StateWaiting && v.done(VerbCancel, l):
		return "its job was canceled"
	}
	for _, line := range v.lines {
		switch {
		case line.Run != l.Run:
		case line.Mono < l.Asked && line.Attempt > l.Attempt:
			return fmt.Sprintf("attempt %d had begun", line.Attempt)
		case l.RunState == carillon.StateSucceeded && line.Kind == KindEnd && line.Attempt == l.Attempt &&
			line.Mono > l.Answered:
			return "its body ended later"
		}
	}
	return ""
}

// asked says that a caller had sent a command before a node answered.
func (v *view) asked(verb Verb, l *Look) bool {
	return slices.ContainsFunc(v.said(verb), func(c Command) bool { return c.Invoked.Mono <= l.Answered })
}

// done says that a command had been answered before a node was asked.
func (v *view) done(verb Verb, l *Look) bool {
	return slices.ContainsFunc(v.said(verb), func(c Command) bool {
		return c.Answer == AnswerOK && c.Answered.Mono < l.Asked
	})
}

// oddJob says what in an answer about a job no caller had asked for.
func (v *view) oddJob(l *Look) string {
	switch {
	case l.JobState == carillon.JobCanceled && !v.asked(VerbCancel, l):
		return "no caller had canceled it"
	case l.JobState == carillon.JobPaused && !v.asked(VerbPause, l):
		return "no caller had paused it"
	case l.Version > 1 && !v.asked(VerbEdit, l):
		return "no caller had edited it"
	case l.JobState == carillon.JobFinished && !v.revived() && v.endedAfter(l.Answered):
		return "a run of it ended later"
	}
	return ""
}

// endedAfter says that the last attempt of a run ended after a time. Earlier attempts do not count: one that
// was frozen can write its lines late.
func (v *view) endedAfter(at time.Duration) bool {
	return slices.ContainsFunc(v.lines, func(line Line) bool {
		r := v.record(line.Run)
		return line.Mono > at && (line.Kind == KindEnd || line.Kind == KindFail) && r != nil &&
			line.Attempt == r.Attempt
	})
}

// disobeyed says which answered command an answer about a job does not show.
func (v *view) disobeyed(l *Look) string {
	switch {
	case v.done(VerbCancel, l) && l.JobState != carillon.JobCanceled:
		return "it was canceled"
	case v.asked(VerbCancel, l):
	case v.done(VerbPause, l) && !v.asked(VerbResume, l) && l.JobState != carillon.JobPaused:
		return "it was paused"
	case l.JobState == carillon.JobPaused && v.resumedBefore(l):
		return "it was resumed"
	}
	if v.done(VerbEdit, l) && l.Version < 2 {
		return "it was edited"
	}
	return ""
}

// resumedBefore says that a resume which came after all pauses had been answered before a node was asked.
func (v *view) resumedBefore(l *Look) bool {
	for _, c := range v.said(VerbResume) {
		before := func(p Command) bool { return p.Answer == AnswerOK && p.Answered.Mono < c.Invoked.Mono }
		if c.Answer == AnswerOK && c.Answered.Mono < l.Asked &&
			!slices.ContainsFunc(v.said(VerbPause), func(p Command) bool { return !before(p) }) {
			return true
		}
	}
	return false
}
