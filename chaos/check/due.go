package check

import (
	"cmp"
	"slices"
	"strings"

	"github.com/carillon-run/carillon"
)

// dueTimes compares the due times of a job with what its schedule says: each has exactly one record, and the
// runs that count are as many as the job asks for.
func (j *judge) dueTimes(v *view) {
	job := v.job
	of := carillon.RunID{Job: job.ID}
	for _, c := range v.said(VerbSubmit) {
		earliest, latest := c.Invoked.Wall.Add(job.After-slack), c.Answered.Wall.Add(job.After+slack)
		if job.First < earliest || c.Answer == AnswerOK && job.First > latest {
			j.found(v, PromiseOccurrence, of,
				"first due at %s, want it between %s and %s", job.First, earliest, latest)
		}
	}
	if job.Every == 0 {
		return
	}
	var runs []Record
	for _, r := range v.records {
		if r.byClock() {
			runs = append(runs, r)
		}
	}
	slices.SortFunc(runs, func(a, b Record) int { return cmp.Compare(a.Covers, b.Covers) })
	next, counted, spared := job.First, 0, 0
	for _, r := range runs {
		switch {
		case r.Covers.Sub(job.First)%job.Every != 0:
			j.found(v, PromiseOccurrence, r.ID, "the schedule is not due at %s", r.Covers)
		case r.Covers < next:
			j.found(v, PromiseOccurrence, r.ID, "%s has two records", r.Covers)
		case r.Covers > next:
			j.found(v, PromiseUnaccounted, r.ID, "no record says what happened from %s until then", next)
		}
		if r.Until != 0 && (r.State != carillon.StateSkipped && r.State != carillon.StateCanceled ||
			r.Until < r.Covers) {
			j.found(v, PromiseOccurrence, r.ID, "%s stands for due times until %s", r.State, r.Until)
		}
		next = max(r.Covers, r.Until).Add(job.Every)
		if r.State != carillon.StateSkipped {
			counted++
		} else if by, replaced := strings.CutPrefix(r.Reason, "replaced by "); replaced {
			// A manual run took its place. If it was the last one by the clock, no other comes after it.
			if other, err := carillon.ParseRunID(by); err == nil && v.record(other) != nil &&
				!v.record(other).byClock() {
				spared++
			}
		}
	}
	cancels := v.said(VerbCancel)
	switch {
	case counted > job.MaxRuns:
		j.found(v, PromiseOccurrence, of, "%d runs by the clock, want at most %d", counted, job.MaxRuns)
	case counted+spared >= job.MaxRuns:
	case len(cancels) == 0:
		j.found(v, PromiseLost, of, "%d runs by the clock, want %d", counted, job.MaxRuns)
	case next <= cancels[0].Invoked.Wall:
		j.found(v, PromiseUnaccounted, of,
			"canceled at %s, and %s has no record", cancels[0].Invoked.Wall, next)
	}
}
