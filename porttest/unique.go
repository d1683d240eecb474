package porttest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/executor"
)

var uniques = []scenario{
	{"of a burst of submits the last one runs, once it is quiet", func(h *House) {
		var mu sync.Mutex
		var payloads []string
		h.Handle = func(_ context.Context, task executor.Task) error {
			mu.Lock()
			defer mu.Unlock()
			payloads = append(payloads, string(task.Job.Payload))
			return nil
		}
		var job carillon.Job
		for i := range 100 {
			job = h.Submit(func(d *carillon.Definition) {
				d.Unique = &carillon.Unique{Key: "report/7", OnConflict: carillon.ConflictReplace}
				d.Schedule.After = carillon.Duration(5 * time.Second)
				d.Payload = []byte{'0' + byte(i/10), '0' + byte(i%10)}
				if i < 10 {
					d.Payload = d.Payload[1:]
				}
			})
			if job.Existing != (i > 0) || job.Version != int32(i+1) {
				h.T.Fatalf("submit %d: %+v", i, job)
			}
			time.Sleep(100 * time.Millisecond)
		}
		last := h.Clock.Now().Add(-100 * time.Millisecond)
		time.Sleep(time.Minute)
		seen := h.Seen()
		if len(seen) != 1 || seen[0].Start != last.Add(5*time.Second) || len(payloads) != 1 ||
			payloads[0] != "99" {
			h.T.Errorf("the last submit was at %s; attempts %+v of %v", last, seen, payloads)
		}
		next := h.Submit(func(d *carillon.Definition) {
			d.Unique = &carillon.Unique{Key: "report/7", OnConflict: carillon.ConflictReplace}
		})
		time.Sleep(time.Second)
		if next.Existing || next.ID == job.ID || len(h.Seen()) != 2 {
			h.T.Errorf("after it has run: %+v", next)
		}
	}},
	{"jobs with one key until they have ended never run side by side", func(h *House) {
		h.Handle = sleepFor(10 * time.Second)
		var made, refused int
		var mu sync.Mutex
		var callers sync.WaitGroup
		for i := range 8 {
			callers.Go(func() {
				for range 50 {
					time.Sleep(time.Duration(300+70*i) * time.Millisecond)
					def := carillon.Definition{Type: "test"}
					def.Target.Handler = &carillon.Handler{}
					def.Unique = &carillon.Unique{Key: "account/7", OnConflict: carillon.ConflictRefuse}
					if err := def.Admit(h.Clock.Now()); err != nil {
						h.T.Error(err)
					}
					_, err := h.Ledger.Submit(
						context.Background(), carillon.DefaultNamespace, []carillon.Definition{def},
					)
					mu.Lock()
					switch {
					case err == nil:
						made++
					case errors.Is(err, carillon.ErrConflict):
						refused++
					default:
						h.T.Error(err)
					}
					mu.Unlock()
				}
			})
		}
		callers.Wait()
		time.Sleep(time.Minute)
		seen := h.Seen()
		if len(seen) != made || made < 3 || refused == 0 {
			h.T.Errorf("%d jobs, %d refused, %d attempts", made, refused, len(seen))
		}
		for i := 1; i < len(seen); i++ {
			if seen[i].Start < seen[i-1].End {
				h.T.Errorf("%s began at %s, before %s ended", seen[i].Run, seen[i].Start, seen[i-1].Run)
			}
		}
	}},
}
