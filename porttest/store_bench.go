package porttest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/idgen"
)

// BenchmarkStore measures what a job costs the store, in thousand jobs a second: each of its three writes by
// itself in batches of one kind, then all kinds mixed as a busy ledger commits them, and reading definitions
// back.
func BenchmarkStore(b *testing.B, open func(b *testing.B) carillon.Store) {
	const jobs = 100_000
	for _, batch := range []int{1000, 4000} {
		b.Run(fmt.Sprintf("one kind at a time, %d a commit", batch), func(b *testing.B) {
			var insert, claim, finish time.Duration
			for range b.N {
				store, work := open(b), newBenchWork(jobs)
				insert += commitAll(b, store, work.submits, batch)
				claim += commitAll(b, store, work.claims, batch)
				finish += commitAll(b, store, work.ends, batch)
			}
			perSecond := func(d time.Duration) float64 { return float64(b.N) * jobs / d.Seconds() / 1000 }
			b.ReportMetric(perSecond(insert), "insert-k/s")
			b.ReportMetric(perSecond(claim), "claim-k/s")
			b.ReportMetric(perSecond(finish), "finish-k/s")
			b.ReportMetric(perSecond(insert+claim+finish), "cycle-k/s")
		})
	}
	b.Run("mixed, 4000 a commit", func(b *testing.B) { benchmarkMixed(b, open, jobs) })
	b.Run("definitions, 1000 a read", func(b *testing.B) { benchmarkDefinitions(b, open(b), jobs) })
	b.Run("one a commit", func(b *testing.B) {
		store, work := open(b), newBenchWork(b.N)
		b.ResetTimer()
		commitAll(b, store, work.submits, 1)
	})
}

// benchmarkMixed commits the inserts of one batch with the claims of the batch before and the ends of the
// batch before that.
func benchmarkMixed(b *testing.B, open func(b *testing.B) carillon.Store, jobs int) {
	const third = 1333
	var spent time.Duration
	for range b.N {
		store, work := open(b), newBenchWork(jobs)
		cut := func(changes []carillon.Change) [][]carillon.Change {
			return slices.Collect(slices.Chunk(changes, third))
		}
		submits, claims, ends := cut(work.submits), cut(work.claims), cut(work.ends)
		var mixed []carillon.Change
		for i := range len(submits) + 2 {
			for lag, kind := range [][][]carillon.Change{submits, claims, ends} {
				if at := i - lag; at >= 0 && at < len(kind) {
					mixed = append(mixed, kind[at]...)
				}
			}
		}
		spent += commitAll(b, store, mixed, 3*third)
	}
	b.ReportMetric(float64(b.N)*float64(jobs)/spent.Seconds()/1000, "cycle-k/s")
	b.ReportMetric(spent.Seconds()*1e6/float64(b.N)/float64(jobs), "us/job")
}

func benchmarkDefinitions(b *testing.B, store carillon.Store, jobs int) {
	work := newBenchWork(jobs)
	commitAll(b, store, work.submits, 4000)
	ids := make([]carillon.JobVersion, jobs)
	for i := range work.submits {
		ids[i] = carillon.JobVersion{Job: work.submits[i].Job.ID, Version: 1}
	}
	b.ResetTimer()
	for range b.N {
		for some := range slices.Chunk(ids, 1000) {
			found, err := store.Jobs(context.Background(), some)
			if err != nil || len(found) != len(some) {
				b.Fatal(len(found), err)
			}
		}
	}
	b.ReportMetric(float64(b.N)*float64(jobs)/b.Elapsed().Seconds()/1000, "k/s")
}

// benchWork is the life of many one-off jobs.
type benchWork struct{ submits, claims, ends []carillon.Change }

func newBenchWork(jobs int) benchWork {
	def := carillon.Definition{}
	def.Type, def.Target.Handler = "mail.send", &carillon.Handler{}
	def.Payload = []byte(`{"to":"` + strings.Repeat("a", 190) + `"}`)
	if err := def.Admit(epoch); err != nil {
		panic(err)
	}
	ids := idgen.New(1, carillon.Never)
	var w benchWork
	for i := range jobs {
		now := epoch + carillon.Time(i/50) // fifty a millisecond
		id, _ := ids.Next(now)
		job := &carillon.Job{ID: id, Namespace: carillon.DefaultNamespace, Definition: def}
		job.Schedule.At = now
		submit := carillon.Submit(job, now)
		run := submit.Runs[0]
		run.Rev++
		run = run.Claim("worker-0123456789abcdef", now+20)
		claim := carillon.Change{Runs: []carillon.Run{run}}
		run.Rev++
		run.Started = now + 21
		end := carillon.EndChange(
			job, run.Finish(job, carillon.Outcome{Kind: carillon.OutcomeSuccess}, now+22, 0), nil,
		)
		w.submits, w.claims, w.ends = append(w.submits, submit), append(w.claims, claim), append(w.ends, end)
	}
	return w
}

func commitAll(b *testing.B, store carillon.Store, changes []carillon.Change, batch int) time.Duration {
	b.Helper()
	begun := time.Now()
	for some := range slices.Chunk(changes, batch) {
		if lost, err := store.Commit(context.Background(), some); len(lost) > 0 || err != nil {
			b.Fatal(len(lost), err)
		}
	}
	return time.Since(begun)
}
