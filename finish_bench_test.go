package carillon_test

import (
	"testing"

	"github.com/carillon-run/carillon"
)

// BenchmarkFinish is the end of an attempt: the plain one, and one that leaves a record.
func BenchmarkFinish(b *testing.B) {
	job := &carillon.Job{Namespace: "default", ID: 4711}
	job.Retry.MaxAttempts = 3
	run := carillon.NewRun(job, epoch).Claim("worker_0", epoch)
	for name, o := range map[string]carillon.Outcome{
		"success":   {Kind: carillon.OutcomeSuccess},
		"retriable": {Kind: carillon.OutcomeRetriable, Reason: "exit code 1"},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				carillon.EndChange(job, run.Finish(job, o, epoch+1, 0), nil)
			}
		})
	}
}
