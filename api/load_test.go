package api_test

import (
	"context"
	"io"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/api"
	"github.com/carillon-run/carillon/internal/idgen"
	"github.com/carillon-run/carillon/internal/ledger"
)

func TestWhatIsRefusedUnderLoad(t *testing.T) {
	const mib, small, large = 1 << 20, false, true
	for name, c := range map[string]struct {
		heldBytes, heldJobs, bytes, jobs int64
		large                            bool
		wait                             time.Duration
		retryAfter                       time.Duration // 0: not refused
	}{
		"an idle server":                           {0, 0, 10_000, 1, small, 0, 0},
		"the largest batch on an idle server":      {0, 0, 18 * mib, 1000, large, 0, 0},
		"a small request while there is room":      {63 * mib, 7999, 10_000, 1, small, 0, 0},
		"a small request without memory":           {64 * mib, 10, 10_000, 1, small, 0, time.Second},
		"a small request behind too many jobs":     {mib, 8000, 10_000, 1, small, 0, time.Second},
		"a large request in the memory of small":   {48 * mib, 10, mib, 1, large, 0, time.Second},
		"a large request in the place of small":    {mib, 5500, mib, 501, large, 0, time.Second},
		"a request whose job would wait a moment":  {mib, 1, 10_000, 1, small, 2 * time.Second, 0},
		"a request whose job would wait too long":  {mib, 1, 9_000, 1, small, 2600 * time.Millisecond, 3 * time.Second},
		"a request while the store hangs for long": {mib, 1, 10_000, 1, small, time.Hour, 30 * time.Second},
	} {
		retryAfter, refused := api.OverloadedRule(c.heldBytes, c.heldJobs, c.bytes, c.jobs, c.large, c.wait)
		if retryAfter != c.retryAfter || refused != (c.retryAfter > 0) {
			t.Errorf("%s: %t, retry after %s, want %s", name, refused, retryAfter, c.retryAfter)
		}
	}
}

// hung is a store whose commits wait until a test opens the gate.
type hung struct {
	carillon.Store
	gate chan struct{}
}

func (s hung) Commit(ctx context.Context, changes []carillon.Change) ([]int, error) {
	<-s.gate
	return s.Store.Commit(ctx, changes)
}

// overloaded is a house in a bubble, whose store takes nothing before the gate is opened.
type overloaded struct {
	*house
	gate     chan struct{}
	refusals int
	callers  sync.WaitGroup
}

func inOverload(t *testing.T, play func(t *testing.T, h *overloaded)) {
	synctest.Test(t, func(t *testing.T) {
		h := &overloaded{gate: make(chan struct{})}
		ctx, stop := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		h.house = newHouse(t, func(c *api.Config) {
			slow := ledger.New(ledger.Config{
				Store: hung{c.Store, h.gate}, IDs: idgen.New(2, carillon.Never),
			})
			go func() { ended <- slow.Run(ctx) }()
			c.Ledger, c.Overloaded = slow, func() { h.refusals++ }
		})
		play(t, h)
		h.callers.Wait()
		stop()
		<-ended
	})
}

// later makes a request that is answered when the gate is open, and checks its status.
func (h *overloaded) later(status int, method, path, body string) {
	h.callers.Go(func() { h.call(method, path, body).is(status) })
	synctest.Wait()
}

func (h *overloaded) stored() int {
	h.t.Helper()
	return len(h.call("GET", "/v1/jobs?limit=1000", "").is(200).items())
}

func TestWhileTheStoreHangsSubmitsAreRefusedAndNothingElse(t *testing.T) {
	inOverload(t, func(t *testing.T, h *overloaded) {
		const batch = `{"jobs":[` + echo + `,` + echo + `]}`
		h.later(201, "POST", "/v1/jobs", echo)
		h.gate <- struct{}{}
		h.callers.Wait()
		job := "/v1/jobs/" + h.call("GET", "/v1/jobs", "").items()[0]

		for range 10 {
			h.later(201, "POST", "/v1/jobs", echo)
		}
		time.Sleep(time.Second)
		h.later(201, "POST", "/v1/jobs/batch", batch)
		time.Sleep(4 * time.Second)
		for _, request := range [][2]string{
			{"/v1/jobs", echo}, {"/v1/jobs/batch", batch}, {job + "/run", ""},
		} {
			a := h.call("POST", request[0], request[1]).problem(429, "")
			if got := a.Header().Get("Retry-After"); got != "5" {
				t.Errorf("%s: Retry-After is %q", request[0], got)
			}
			if kind := a.text("type"); kind != "urn:carillon:problem:overloaded" {
				t.Errorf("%s: the problem is %s", request[0], kind)
			}
		}
		if h.refusals != 3 {
			t.Errorf("%d refusals were counted, want 3", h.refusals)
		}
		h.call("GET", job, "").is(200)
		h.call("POST", h.register()+"/beat", `{"number":1,"heard":0,"holds":[]}`).is(200)
		h.later(200, "POST", job+"/pause", "") // waits for the store, and is not refused
		h.later(200, "DELETE", job, "")

		close(h.gate)
		h.callers.Wait()
		h.submit(echo)
		if n := h.stored(); n != 1+10+2+1 {
			t.Errorf("%d jobs are stored", n)
		}
	})
}

// unread is the body of a request that must be refused before it is read.
type unread struct{ t *testing.T }

func (u unread) Read([]byte) (int, error) {
	u.t.Error("the body of a refused request was read")
	return 0, io.EOF
}

func TestRequestsThatWaitForTheStoreTakeBoundedMemory(t *testing.T) {
	inOverload(t, func(t *testing.T, h *overloaded) {
		const mib = 1 << 20
		large := `{"jobs":[` + echo + `,` + echo + strings.Repeat(" ", 8*mib) + `]}`
		taken := 0
		for h.refusals == 0 && taken < 1000 {
			h.callers.Go(func() { h.call("POST", "/v1/jobs/batch", large) })
			synctest.Wait()
			taken++
		}
		taken--         // the last one was refused
		if taken != 4 { // each counts 1000 jobs, with 2 KiB each
			t.Errorf("%d requests of 8 MiB wait for the store", taken)
		}
		for range 50 {
			r := httptest.NewRequest("POST", "/v1/jobs/batch", unread{t})
			r.Header.Set("Authorization", "Bearer "+token)
			r.Header.Set("Content-Type", "application/json")
			r.ContentLength = 10 * mib
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			answer{t, w}.problem(429, "")
		}
		h.later(201, "POST", "/v1/jobs", echo) // large requests leave room for single jobs

		close(h.gate)
		h.callers.Wait()
		if n := h.stored(); n != 2*taken+1 {
			t.Errorf("%d jobs are stored of %d accepted requests with two each", n, taken)
		}
		h.call("POST", "/v1/jobs/batch", large).is(201)
	})
}

func TestARefusalUnderLoadKeepsTheConnection(t *testing.T) {
	h := newHouse(t, func(c *api.Config) { c.Ledger = full{c.Ledger} })
	client := h.serve(0)
	for _, space := range []int{0, 0, 40_000, 0} { // a batch of usual jobs is longer than a kilobyte
		body := echo + strings.Repeat(" ", space)
		r := httptest.NewRequest("POST", "http://carillon/v1/jobs", strings.NewReader(body))
		r.RequestURI = ""
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("Content-Type", "application/json")
		answer, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != 429 || answer.Close {
			t.Errorf("%s, the connection closes: %t", answer.Status, answer.Close)
		}
	}
}

// full is a ledger for which changes wait too long.
type full struct{ api.Ledger }

func (full) Wait(time.Time) time.Duration { return time.Minute }
