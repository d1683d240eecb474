package sqlite_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
)

func cpu() time.Duration {
	var r syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

func TestScratch(t *testing.T) {
	if os.Getenv("SCRATCH") == "" {
		t.Skip()
	}
	const jobs = 100_000
	for range 3 {
		submits, claims, ends := scratchWork(jobs)
		runtime.GC()
		store := open(t)
		var line string
		var sum time.Duration
		var mixed []carillon.Change
		for i := 0; i < jobs; i += 1333 {
			for lag, kind := range [][]carillon.Change{submits, claims, ends} {
				if at := i - 1333*lag; at >= 0 {
					mixed = append(mixed, kind[at:min(at+1333, jobs)]...)
				}
			}
		}
		kinds := [][]carillon.Change{submits, claims, ends}
		if os.Getenv("SCRATCH") == "mixed" {
			kinds = [][]carillon.Change{mixed}
		}
		for i, kind := range kinds {
			c0, w0 := cpu(), time.Now()
			for some := range slices.Chunk(kind, 3999) {
				if lost, err := store.Commit(context.Background(), some); len(lost) > 0 || err != nil {
					t.Fatal(lost, err)
				}
			}
			c, w := cpu()-c0, time.Since(w0)
			sum += c
			line += fmt.Sprintf("%s cpu %.2f us wall %.2f us  ", []string{"insert", "claim", "finish"}[i], c.Seconds()*1e6/jobs, w.Seconds()*1e6/jobs)
		}
		t.Logf("%s total cpu %.2f us/job", line, sum.Seconds()*1e6/jobs)
	}
}

func scratchWork(jobs int) (submits, claims, ends []carillon.Change) {
	def := carillon.NewDefinition()
	def.Type, def.Target.Handler = "mail.send", &carillon.Handler{}
	def.Payload = []byte(`{"to":"` + strings.Repeat("a", 190) + `"}`)
	const epoch = 1_800_000_000_000
	if err := def.Admit(epoch); err != nil {
		panic(err)
	}
	ids := carillon.NewIDs(1, carillon.Never)
	for i := range jobs {
		now := epoch + carillon.Time(i/50)
		id, _ := ids.Next(now)
		job := &carillon.Job{ID: id, Namespace: "default", Definition: def}
		job.Schedule.At = now
		submit := carillon.Submit(job, now)
		run := submit.Runs[0]
		run.Rev++
		run = run.Claim("worker-0123456789abcdef", now+20)
		claims = append(claims, carillon.Change{Runs: []carillon.Run{run}})
		run.Rev++
		run.Started = now + 21
		submits = append(submits, submit)
		ends = append(ends, carillon.Settle(run.Finish(job, carillon.Outcome{Kind: carillon.Success}, now+22, 0), nil))
	}
	return
}

func TestDefs(t *testing.T) {
	if os.Getenv("SCRATCH") == "" {
		t.Skip()
	}
	const jobs = 100_000
	submits, _, _ := scratchWork(jobs)
	store := open(t)
	var ids []carillon.JobVersion
	for some := range slices.Chunk(submits, 4000) {
		if _, err := store.Commit(context.Background(), some); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range submits {
		ids = append(ids, carillon.JobVersion{Job: c.Job.ID, Version: 1})
	}
	for range 5 {
		c0, w0 := cpu(), time.Now()
		for some := range slices.Chunk(ids, 1000) {
			if found, err := store.Jobs(context.Background(), some); err != nil || len(found) != len(some) {
				t.Fatal(err)
			}
		}
		c1, w1 := cpu(), time.Now()
		n := 0
		q := carillon.WakeQuery{Until: carillon.Never, Limit: 1000}
		for {
			page, err := store.Wakes(context.Background(), q)
			if err != nil {
				t.Fatal(err)
			}
			if len(page) == 0 {
				break
			}
			n += len(page)
			q.After = page[len(page)-1].WakePos()
		}
		t.Logf("defs cpu %.2f wall %.2f; wakes %d cpu %.2f wall %.2f us", (c1-c0).Seconds()*1e6/jobs, w1.Sub(w0).Seconds()*1e6/jobs, n, (cpu()-c1).Seconds()*1e6/jobs, time.Since(w1).Seconds()*1e6/jobs)
	}
}

func TestRecurring(t *testing.T) {
	if os.Getenv("SCRATCH") == "" {
		t.Skip()
	}
	const jobs, epoch = 50_000, carillon.Time(1_800_000_000_000)
	for range 3 {
		ids := carillon.NewIDs(1, carillon.Never)
		def := carillon.NewDefinition()
		def.Type, def.Target.Handler = "mail.send", &carillon.Handler{}
		def.Schedule.Every = carillon.Duration(time.Minute)
		def.Admit(epoch)
		var submits, claims, ends []carillon.Change
		for range jobs {
			id, _ := ids.Next(epoch)
			job := &carillon.Job{ID: id, Namespace: "default", Definition: def}
			c := carillon.Submit(job, epoch)
			submits = append(submits, c)
			run, guard := c.Runs[0], c.Guards[0]
			run.Rev, guard.Rev = 1, 1
			_, claim := carillon.Due{Job: job, Run: run, Guard: &guard, Worker: "worker-0123456789"}.Decide(run.ID.Due)
			claims = append(claims, claim)
			held, g2 := claim.Runs[0], claim.Guards[0]
			held.Rev, g2.Rev = 2, 2
			ends = append(ends, carillon.Settle(held.Finish(job, carillon.Outcome{Kind: carillon.Success}, run.ID.Due+5, 0), &g2))
		}
		store := open(t)
		var line string
		for i, kind := range [][]carillon.Change{submits, claims, ends} {
			c0 := cpu()
			for some := range slices.Chunk(kind, 4000) {
				if lost, err := store.Commit(context.Background(), some); len(lost) > 0 || err != nil {
					t.Fatal(lost, err)
				}
			}
			line += fmt.Sprintf("%s cpu %.2f ", []string{"insert", "claim", "finish"}[i], (cpu()-c0).Seconds()*1e6/jobs)
		}
		t.Log("rec", line)
	}
}

func TestScale(t *testing.T) {
	if os.Getenv("SCRATCH") == "" {
		t.Skip()
	}
	store := open(t)
	ctx := context.Background()
	const jobs = 500_000
	submits, claims, ends := scratchWork(jobs)
	timed := func(what string, f func()) {
		c0, w0 := cpu(), time.Now()
		f()
		t.Logf("scale %s: wall %v cpu %v", what, time.Since(w0).Round(10*time.Microsecond), (cpu() - c0).Round(10*time.Microsecond))
	}
	all := func(kind []carillon.Change) {
		for some := range slices.Chunk(kind, 4000) {
			if lost, err := store.Commit(ctx, some); len(lost) > 0 || err != nil {
				t.Fatal(lost, err)
			}
		}
	}
	timed("submit", func() { all(submits) })
	timed("claim half", func() { all(claims[:jobs/2]) })
	timed("end half", func() { all(ends[:jobs/2]) })
	find := func(what string, q carillon.JobQuery) {
		timed(what, func() {
			page, err := store.FindJobs(ctx, q)
			t.Log(len(page.Jobs), page.Next, err)
		})
	}
	find("jobs", carillon.JobQuery{Namespace: "default"})
	find("jobs finished", carillon.JobQuery{States: []carillon.JobState{carillon.Finished}})
	find("jobs none such", carillon.JobQuery{Type: "nope"})
	find("jobs latest failed", carillon.JobQuery{Latest: []carillon.LatestState{carillon.LatestFailed}})
	runs := func(what string, q carillon.RunQuery) {
		timed(what, func() {
			page, err := store.FindRuns(ctx, q)
			t.Log(len(page.Runs), page.Next, err)
		})
	}
	runs("runs", carillon.RunQuery{Namespace: "default"})
	runs("runs failed", carillon.RunQuery{States: []carillon.State{carillon.Failed}})
	runs("runs succeeded", carillon.RunQuery{States: []carillon.State{carillon.Succeeded}})
	runs("runs running", carillon.RunQuery{States: []carillon.State{carillon.Running}})
	runs("runs worker none", carillon.RunQuery{Worker: "nope"})
	runs("runs of job", carillon.RunQuery{Job: submits[10].Job.ID})
	timed("wakes", func() { store.Wakes(ctx, carillon.WakeQuery{Until: carillon.Never, Limit: 1000}) })
	timed("wakes of an empty lane", func() {
		store.Wakes(ctx, carillon.WakeQuery{Until: carillon.Never, Limit: 1000, Lane: &carillon.Lane{Queue: "none"}})
	})
	timed("forget 100k", func() {
		n := 0
		for n < 100_000 {
			k, err := store.Forget(ctx, carillon.Retention{Runs: 1}, carillon.Never/2, 1000)
			if err != nil || k == 0 {
				t.Fatal(k, err)
			}
			n += k
		}
	})
}
