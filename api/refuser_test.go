package api_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon-run/carillon/api"
)

// crowdedLedger is a ledger for which changes wait too long as long as a test says so.
type crowdedLedger struct {
	api.Ledger
	crowded *atomic.Bool
}

func (l crowdedLedger) Wait(time.Time) time.Duration {
	if l.crowded.Load() {
		return 3 * time.Second
	}
	return 0
}

// refusing is a house behind a server with a Refuser, and one connection to it.
type refusing struct {
	*house
	crowded  atomic.Bool
	refusals atomic.Int64
	panics   int64 // at which refusal; 0: at none
	refuser  *api.Refuser
	server   *http.Server
	conn     net.Conn
	in       *bufio.Reader
}

func inRefusing(t *testing.T, play func(t *testing.T, h *refusing)) {
	synctest.Test(t, func(t *testing.T) {
		h := &refusing{refuser: api.NewRefuser()}
		h.begin(t, h.refuser, play)
	})
}

// withAndWithout plays with a Refuser, and without one: a caller must see the same.
func withAndWithout(t *testing.T, play func(t *testing.T, h *refusing)) {
	t.Run("with a Refuser", func(t *testing.T) { inRefusing(t, play) })
	t.Run("without", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h := &refusing{refuser: api.NewRefuser()}
			h.begin(t, nil, play)
		})
	})
}

func (h *refusing) begin(t *testing.T, refuser *api.Refuser, play func(t *testing.T, h *refusing)) {
	h.house = newHouse(t, func(c *api.Config) {
		c.Ledger, c.Refuser = crowdedLedger{c.Ledger, &h.crowded}, refuser
		c.Overloaded = func() {
			if h.refusals.Add(1) == h.panics {
				panic("planted")
			}
		}
		c.Logger = slog.New(slog.DiscardHandler)
	})
	h.server = &http.Server{ // as in a node
		Handler: h, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute,
		WriteTimeout: time.Minute, IdleTimeout: 2 * time.Minute,
	}
	p := pipes{make(chan net.Conn), make(chan struct{})}
	stopped := make(chan error)
	for _, from := range []net.Listener{p, h.refuser} {
		go func() { stopped <- h.server.Serve(from) }()
	}
	var err error
	if h.conn, err = p.dial(t.Context(), "", ""); err != nil {
		t.Fatal(err)
	}
	h.in = bufio.NewReader(h.conn)
	defer func() {
		_ = h.conn.Close()
		_ = h.server.Close()
		for range 2 {
			<-stopped
		}
	}()
	play(t, h)
}

func rawRequest(method, path, body string, headers ...string) string {
	return fmt.Sprintf("%s %s HTTP/1.1\r\nHost: carillon\r\nAuthorization: Bearer %s\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\n%s\r\n%s",
		method, path, token, len(body), strings.Join(append(headers, ""), "\r\n"), body)
}

// send writes beside the reads of a test: a pipe has no buffer.
func (h *refusing) send(text string) {
	go func() { _, _ = io.WriteString(h.conn, text) }()
}

// answered reads an answer, and checks its status.
func (h *refusing) answered(status int) (*http.Response, string) {
	h.t.Helper()
	answer, err := http.ReadResponse(h.in, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	body, err := io.ReadAll(answer.Body)
	if answer.StatusCode != status || err != nil {
		h.t.Fatalf("the answer is %s %s %v, want %d", answer.Status, body, err, status)
	}
	return answer, string(body)
}

func TestTheRefuserAnswersAsTheServerDoes(t *testing.T) {
	inRefusing(t, func(t *testing.T, h *refusing) {
		plain := newHouse(t, func(c *api.Config) { c.Ledger = crowdedLedger{c.Ledger, &h.crowded} })
		h.crowded.Store(true)
		want := plain.call("POST", "/v1/jobs", echo).is(429)
		for range 3 { // the first answer follows a request that net/http has read
			h.send(rawRequest("POST", "/v1/jobs", echo))
			got, body := h.answered(429)
			if body != want.Body.String() || got.ContentLength != int64(len(body)) {
				t.Errorf("the body is %s, want %s", body, want.Body)
			}
			for name, values := range want.Header() {
				if name != "X-Request-Id" && !slices.Equal(got.Header.Values(name), values) {
					t.Errorf("%s is %q, want %q", name, got.Header.Values(name), values)
				}
			}
			at, err := http.ParseTime(got.Header.Get("Date"))
			if id := got.Header.Get("X-Request-Id"); len(id) != 16 || err != nil || time.Since(at) > time.Second {
				t.Errorf("request %q at %s, %v", id, at, err)
			}
			time.Sleep(time.Minute)
		}
		if n := h.refusals.Load(); n != 3 {
			t.Errorf("%d refusals were counted, want 3", n)
		}
	})
}

func TestAConnectionComesBackFromTheRefuser(t *testing.T) {
	const batch = `{"jobs":[` + echo + `]}`
	large := `{"jobs":[` + echo + strings.Repeat(" ", 30_000) + `]}`
	for name, next := range map[string]struct {
		method, path, body string
		calm               bool // when it comes
		headers            []string
		status             int
	}{
		"a submit that is accepted":     {"POST", "/v1/jobs", echo, true, nil, 201},
		"a large submit, accepted":      {"POST", "/v1/jobs/batch", large, true, nil, 201},
		"another request":               {"GET", "/v1/jobs", "", false, nil, 200},
		"a head with very many headers": {"POST", "/v1/jobs/batch", batch, true, longHeaders(), 201},
		"a large batch that is refused": {"POST", "/v1/jobs/batch", large + large + large, false, nil, 429},
		"a request of a browser": {
			"POST", "/v1/jobs", echo, false, []string{"Sec-Fetch-Site: cross-site"}, 403,
		},
	} {
		t.Run(name, func(t *testing.T) {
			inRefusing(t, func(t *testing.T, h *refusing) {
				for range 3 {
					h.crowded.Store(true)
					h.send(rawRequest("POST", "/v1/jobs", echo))
					h.answered(429)
					h.send(rawRequest("POST", "/v1/jobs/batch", batch))
					h.answered(429)
					h.crowded.Store(!next.calm)
					h.send(rawRequest(next.method, next.path, next.body, next.headers...))
					if answer, _ := h.answered(next.status); answer.Close { // its body was not read
						break
					}
				}
				h.crowded.Store(false)
				want := 0
				if next.status == 201 {
					want = 3
				}
				if n := len(h.call("GET", "/v1/jobs", "").items()); n != want {
					t.Errorf("%d jobs are stored, want %d", n, want)
				}
			})
		})
	}
}

func longHeaders() (list []string) {
	for i := range 100 {
		list = append(list, fmt.Sprintf("X-Note-%d: %s", i, strings.Repeat("a", 60)))
	}
	return list
}

func TestWhatTheRefuserGivesBackIsCountedOnce(t *testing.T) {
	inRefusing(t, func(t *testing.T, h *refusing) {
		body := `{"jobs":[` + echo + strings.Repeat(" ", 30_000) + `]}` // as long as 100 jobs
		for range 100 {
			h.crowded.Store(true)
			h.send(rawRequest("POST", "/v1/jobs", echo))
			h.answered(429)
			h.crowded.Store(false)
			h.send(rawRequest("POST", "/v1/jobs/batch", body))
			h.answered(201)
		}
	})
}

func TestRequestsThatCameTogetherAreAllAnswered(t *testing.T) {
	inRefusing(t, func(t *testing.T, h *refusing) {
		h.crowded.Store(true)
		one := rawRequest("POST", "/v1/jobs", echo)
		h.send(strings.Repeat(one, 5) + rawRequest("GET", "/v1/jobs", "") + one)
		for range 5 {
			h.answered(429)
		}
		h.answered(200)
		h.answered(429)
	})
}

func TestACallerThatIsSilentIsLeft(t *testing.T) {
	inRefusing(t, func(t *testing.T, h *refusing) {
		h.crowded.Store(true)
		h.send(rawRequest("POST", "/v1/jobs", echo))
		h.answered(429)
		began := time.Now()
		if b, err := h.in.ReadByte(); err != io.EOF || time.Since(began) != 2*time.Minute {
			t.Errorf("read %q, %v after %s", b, err, time.Since(began))
		}
	})
}

func TestAServerThatStopsClosesWhatItsRefuserHas(t *testing.T) {
	inRefusing(t, func(t *testing.T, h *refusing) {
		h.crowded.Store(true)
		h.send(rawRequest("POST", "/v1/jobs", echo))
		h.answered(429)
		synctest.Wait() // the Refuser waits for the next request
		began := time.Now()
		if err := h.server.Shutdown(context.Background()); err != nil {
			t.Fatal(err)
		}
		if b, err := h.in.ReadByte(); err != io.EOF || time.Since(began) > time.Second {
			t.Errorf("read %q, %v after %s", b, err, time.Since(began))
		}
	})
}
