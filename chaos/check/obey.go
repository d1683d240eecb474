package check

import (
	"time"

	"github.com/carillon-run/carillon"
)

// slack is how far the clocks of a node and of a caller can differ: a node measures how far its clock is from
// the store's, and on a busy machine it measures badly.
const slack = 250 * time.Millisecond

// pullTime is how long after a claim a body can still begin: a worker begins no run of an answer that came
// later.
const pullTime = 3 * time.Second

// obeyed checks that bodies follow the commands that were answered: no claim after a cancel or in a pause,
// and only the new definition after an edit. The claim of an attempt is in its fence.
func (j *judge) obeyed(v *view) {
	for i := range v.commands {
		c := &v.commands[i]
		for _, l := range v.lines {
			if l.Kind == KindStart {
				j.obeys(v, c, l)
			}
		}
	}
}

func (j *judge) obeys(v *view, c *Command, l Line) {
	answered, claimed := c.Answered.Wall.Add(slack), l.Claimed()
	ok := c.Answer == AnswerOK
	late := l.Mono-c.Answered.Mono > pullTime+j.allowed(c.Answered.Mono, l.Mono)
	switch {
	case c.Verb == VerbCancel && ok && (claimed > answered || late):
		j.found(v, PromiseCommands, l.Run, "attempt %d was claimed at %s and began at %s, canceled at %s",
			l.Attempt, claimed, l.At, c.Answered.Wall)
	case c.Verb == VerbPause && ok && claimed > answered && claimed < v.resumed(c).Add(-slack):
		j.found(v, PromiseCommands, l.Run,
			"attempt %d was claimed at %s, paused since %s", l.Attempt, claimed, c.Answered.Wall)
	case c.Verb == VerbEdit && ok && claimed > answered && l.Attempt == 1 && l.Version < 2:
		j.found(v, PromiseCommands, l.Run, "claimed at %s with the old definition, edited at %s", claimed,
			c.Answered.Wall)
	case c.Verb == VerbEdit && l.Version > 1 && l.Mono < c.Invoked.Mono:
		j.found(v, PromiseCommands, l.Run, "began with the new definition before the edit")
	}
}

// resumed is when a caller first asked to resume the job after a pause.
func (v *view) resumed(pause *Command) carillon.Time {
	for _, c := range v.said(VerbResume) {
		if c.Invoked.Mono >= pause.Invoked.Mono {
			return c.Invoked.Wall
		}
	}
	return carillon.Never - carillon.Time(time.Hour/time.Millisecond)
}

// added checks the runs that callers asked for: each that was answered has a record, and there are no others.
func (j *judge) added(v *view) {
	manual, repeats := 0, 0
	for i := range v.records {
		switch r := &v.records[i]; {
		case r.RetryOf != 0:
			repeats++
		case r.Covers == 0:
			manual++
		}
	}
	for verb, got := range map[Verb]int{VerbRunNow: manual, VerbRedrive: repeats} {
		asked := v.said(verb)
		if got > len(asked) {
			j.found(v, PromiseUnaccounted, carillon.RunID{Job: v.job.ID},
				"%d runs by %s, asked for %d", got, verb, len(asked))
		}
		for _, c := range asked {
			if c.Answer == AnswerOK && v.record(c.Run) == nil {
				j.found(v, PromiseLost, c.Run, "%s was answered with a run that has no record", verb)
			}
		}
	}
}
