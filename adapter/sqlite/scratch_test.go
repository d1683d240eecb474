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
