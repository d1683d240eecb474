package check

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/carillon-run/carillon"
)

// Promise is a promise that a history can break. It is the name of its count in the report.
type Promise string

const (
	PromiseLost        Promise = "lost"           // each run of an accepted job ends, and its body has run
	PromiseConcurrent  Promise = "concurrent"     // no two bodies of a key at a time, and fences rise
	PromiseStale       Promise = "stale_accepted" // no write of an attempt after one of a later attempt
	PromiseEarly       Promise = "early"          // no start before the due time
	PromiseLate        Promise = "late"           // with a free slot a run starts within a second
	PromiseTakeover    Promise = "takeover"       // runs of a dead worker start again within ten seconds
	PromiseOccurrence  Promise = "wrong_occ"      // the due times are those of the schedule, each once
	PromiseUnaccounted Promise = "unaccounted"    // each due time has a record, each record an explanation
	PromiseRetries     Promise = "retries"        // attempts are failures and losses and one success
	PromiseCommands    Promise = "disobeyed"      // a cancel is a cancel, an edit an edit, a pause a pause
	PromiseStates      Promise = "states"         // what nodes say meanwhile is true, and goes only forward
	PromiseLogs        Promise = "logs"           // what a command printed is in its log, in order
	PromiseLeaks       Promise = "leaks"          // all runs have ended, and nothing of them is left
)

// promises are in the order of the report.
var promises = []Promise{
	PromiseLost, PromiseConcurrent, PromiseStale, PromiseEarly, PromiseOccurrence, PromiseUnaccounted,
	PromiseLate, PromiseTakeover, PromiseRetries, PromiseCommands, PromiseStates, PromiseLogs,
	PromiseLeaks,
}

// Broken is one place where a history breaks a promise.
type Broken struct {
	Promise Promise
	Run     carillon.RunID // without a due time it means the job
	What    string
	Story   string // what led to it, in order of time; only for the first ones
}

func (b Broken) String() string { return fmt.Sprintf("%s: %s: %s", b.Promise, b.Run, b.What) }

// Of each promise only the first ones are told, and the very first with their story; the others are counted.
const (
	mostStories = 2
	mostBroken  = 10
)

// judge goes over a history, one job after the other.
type judge struct {
	*History
	report  Report
	lates   []time.Duration
	takes   []time.Duration
	hits    map[int32][]Fault // faults of workers, by process
	workers faults
	others  faults // of nodes and stores
	logs    map[carillon.RunID]Log
}

// Judge returns where a history breaks the promises, and the figures of the report.
func Judge(h *History) Report {
	j := &judge{
		History: h, report: Report{count: map[Promise]int{}}, hits: map[int32][]Fault{},
		logs: map[carillon.RunID]Log{},
	}
	for _, f := range h.Faults {
		if f.Part == PartWorker {
			j.hits[f.Process] = append(j.hits[f.Process], f)
			j.workers = append(j.workers, f)
		} else {
			j.others = append(j.others, f)
		}
	}
	j.workers.sort()
	j.others.sort()
	for _, log := range h.Logs {
		j.logs[log.Run] = log
	}
	j.unique()
	h.views(j.judge)
	for _, left := range h.Left {
		j.found(&view{}, PromiseLeaks, carillon.RunID{}, "left behind: %s", left)
	}
	j.report.Jobs, j.report.Runs = len(h.Jobs), len(h.Records)
	j.report.Late, j.report.Takeover = spreadOf(j.lates), spreadOf(j.takes)
	slices.SortStableFunc(j.report.Broken, func(a, b Broken) int {
		return cmp.Compare(slices.Index(promises, a.Promise), slices.Index(promises, b.Promise))
	})
	return j.report
}

// unique checks that no submit left two jobs.
func (j *judge) unique() {
	seen := make(map[string]carillon.JobID, len(j.Jobs))
	for i := range j.Jobs {
		job := &j.Jobs[i]
		if other, twice := seen[job.Key]; twice {
			j.found(&view{}, PromiseOccurrence, carillon.RunID{Job: job.ID},
				"submit %s was stored twice, also as %s", job.Key, other)
		}
		seen[job.Key] = job.ID
	}
}

func (j *judge) judge(v *view) {
	if v.job == nil {
		j.strangers(v)
		return
	}
	for _, check := range []func(*view){
		j.overlaps, j.stale, j.ends, j.attempts, j.dueTimes, j.obeyed, j.added, j.lateness, j.takeovers,
		j.looks, j.output,
	} {
		check(v)
	}
}

// strangers are runs of a job that no submit left.
func (j *judge) strangers(v *view) {
	for i := range v.commands {
		if c := &v.commands[i]; c.Verb == VerbSubmit && c.Answer == AnswerOK {
			j.found(v, PromiseLost, carillon.RunID{Job: c.Job},
				"submit %s was answered, and there is no job", c.Key)
		}
	}
	switch {
	case len(v.records) > 0:
		j.found(v, PromiseUnaccounted, v.records[0].ID, "a run of a job that no caller submitted")
	case len(v.lines) > 0:
		j.found(v, PromiseUnaccounted, v.lines[0].Run, "a body of a job that no caller submitted")
	}
}

func (j *judge) found(v *view, promise Promise, run carillon.RunID, format string, args ...any) {
	j.report.count[promise]++
	if j.report.count[promise] > mostBroken {
		return
	}
	b := Broken{Promise: promise, Run: run, What: fmt.Sprintf(format, args...)}
	if j.report.count[promise] <= mostStories {
		b.Story = j.story(v, run)
	}
	j.report.Broken = append(j.report.Broken, b)
}

func (j *judge) allowed(from, to time.Duration) time.Duration {
	if j.Allowance == nil {
		return 0
	}
	return j.Allowance(from, to)
}

// onTimeFor says that something did not take longer than it may on this machine. It counts where only the
// machine excuses it.
func (j *judge) onTimeFor(limit, from, to time.Duration) bool {
	switch took := to - from; {
	case took <= limit:
		return true
	case took <= limit+j.allowed(from, to) || j.Busy != nil && j.Busy(from, to):
		j.report.Busy++
		return true
	}
	return false
}

// said returns the commands of one kind that happened, or can have happened.
func (v *view) said(verb Verb) (list []Command) {
	for _, c := range v.commands {
		if c.Verb == verb && c.Answer != AnswerRefused {
			list = append(list, c)
		}
	}
	return list
}

// record finds the record of a run; nil: there is none.
func (v *view) record(id carillon.RunID) *Record {
	i, found := slices.BinarySearchFunc(v.records, id.Due, func(r Record, due carillon.Time) int {
		return int(r.ID.Due - due)
	})
	if !found {
		return nil
	}
	return &v.records[i]
}

// faults are in order of their begin.
type faults []Fault

const forever = time.Duration(1<<63 - 1)

func (f Fault) end() time.Duration {
	if f.To == 0 {
		return forever
	}
	return f.To
}

func (fs faults) sort() {
	slices.SortFunc(fs, func(a, b Fault) int { return int(a.From - b.From) })
}

// longest bounds how long a fault lasts, so that near need not look at all of them.
const longest = 5 * time.Minute

// near says whether a fault lasted at any moment between two times, and when the last such fault was over.
func (fs faults) near(from, to time.Duration) (over time.Duration, any bool) {
	begin, _ := slices.BinarySearchFunc(fs, from-longest, func(f Fault, at time.Duration) int {
		return int(f.From - at)
	})
	for _, f := range fs[begin:] {
		if f.From > to {
			break
		}
		if f.end() >= from {
			over, any = max(over, f.end()), true
		}
	}
	return over, any
}
