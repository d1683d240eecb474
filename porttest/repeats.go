package porttest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/carillon-run/carillon"
)

var repeats = []scenario{
	{"a submit that many callers send with one key runs once", func(h *House) {
		h.Handle = sleepFor(time.Minute)
		heard := make([][]carillon.JobID, 64)
		var callers sync.WaitGroup
		for i := range heard {
			callers.Go(func() { heard[i], _ = h.submitOnce("k", "request", 3) })
		}
		callers.Wait()
		for _, ids := range heard {
			if len(ids) != 3 || !slices.Equal(ids, heard[0]) {
				h.T.Fatalf("one caller heard of %s, another of %s", ids, heard[0])
			}
		}
		time.Sleep(time.Hour)
		if n := len(h.Seen()); n != 3 {
			h.T.Errorf("%d attempts of 3 jobs", n)
		}
	}},
	{"a job that has run and was forgotten is not submitted again with its key", func(h *House) {
		first, err := h.submitOnce("k", "request", 1)
		if err != nil {
			h.T.Fatal(err)
		}
		time.Sleep(time.Hour)
		rule := carillon.Retention{Runs: carillon.Duration(time.Minute)}
		for n := 1; n > 0; {
			if n, err = h.Store.Forget(context.Background(), rule, h.Clock.Now(), 100); err != nil {
				h.T.Fatal(err)
			}
		}
		h.Down(time.Hour)
		again, err := h.submitOnce("k", "request", 1)
		if err != nil || !slices.Equal(again, first) {
			h.T.Errorf("%s, then %s: %v", first, again, err)
		}
		var reused *carillon.KeyReusedError
		if _, err := h.submitOnce("k", "another request", 1); !errors.As(err, &reused) {
			h.T.Errorf("another request: %v", err)
		}
		time.Sleep(time.Hour)
		if n := len(h.Seen()); n != 1 {
			h.T.Errorf("%d attempts", n)
		}
	}},
	{"a key is free again after a day, and one of many callers takes it", func(h *House) {
		first, err := h.submitOnce("k", "request", 1)
		if err != nil {
			h.T.Fatal(err)
		}
		time.Sleep(carillon.IdempotencyTime)
		heard := make([][]carillon.JobID, 16)
		var callers sync.WaitGroup
		for i := range heard {
			callers.Go(func() { heard[i], _ = h.submitOnce("k", "another request", 1) })
		}
		callers.Wait()
		for _, ids := range heard {
			if len(ids) != 1 || ids[0] == first[0] || ids[0] != heard[0][0] {
				h.T.Fatalf("first %s, then %s and %s", first, ids, heard[0])
			}
		}
		time.Sleep(time.Hour)
		if n := len(h.Seen()); n != 2 {
			h.T.Errorf("%d attempts", n)
		}
	}},
}

// submitOnce submits jobs with an idempotency key, and returns their ids: those of the first request if this
// one repeats it.
func (h *House) submitOnce(key, request string, n int) ([]carillon.JobID, error) {
	once, err := carillon.NewOnce("key", key)
	if err != nil {
		return nil, err
	}
	once.Request, once.At = request, h.Clock.Now()
	defs := make([]carillon.Definition, n)
	for i := range defs {
		defs[i].Type, defs[i].Target.Handler = "test", &carillon.Handler{}
		if err := defs[i].Admit(once.At); err != nil {
			return nil, err
		}
	}
	jobs, err := h.Ledger.Submit(once.Context(context.Background()), carillon.DefaultNamespace, defs)
	var repeated *carillon.RepeatedError
	if errors.As(err, &repeated) {
		return repeated.Use.Jobs, nil
	}
	var ids []carillon.JobID
	for i := range jobs {
		ids = append(ids, jobs[i].ID)
	}
	return ids, err
}
