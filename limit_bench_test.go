package carillon

import "testing"

// BenchmarkLimit is what a limit adds to the decisions about a run: it is claimed and ends, and both changes
// fold the counter.
func BenchmarkLimit(b *testing.B) {
	job := Job{Namespace: "default", ID: 1, State: JobActive}
	job.Schedule.At = 1
	limits := []Limit{{Key: "customer-123", Concurrency: 10, Weight: 1}}
	for _, kind := range []struct {
		name   string
		limits []Limit
	}{{"none", nil}, {"one", limits}} {
		b.Run(kind.name, func(b *testing.B) {
			job := job
			job.Limits = kind.limits
			run := Run{ID: RunID{Job: 1, Due: 1}, Namespace: "default", State: StateWaiting}
			guard := Guard{Key: limits[0].Hold(), Value: []byte("3 0 0 12345 0")}
			b.ReportAllocs()
			for b.Loop() {
				_, c := Candidate{Job: &job, Run: run, Limits: job.Limits, Worker: "w"}.Decide(2)
				end := EndChange(&job, c.Runs[0].End(StateSucceeded, "", 3), nil)
				for _, folds := range [...][]Fold{c.Folds, end.Folds} {
					for i := range folds {
						guard, _ = folds[i].Step(guard, 3)
					}
				}
			}
		})
	}
}
