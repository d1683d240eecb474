package executor

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
)

var loopback = HTTPConfig{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}

// callOnce serves one answer and performs one attempt against it.
func callOnce(t *testing.T, target carillon.HTTP, answer http.HandlerFunc) (carillon.Outcome, *record) {
	t.Helper()
	server := httptest.NewServer(answer)
	defer server.Close()
	target.URL = server.URL + target.URL
	task, r := newTask(carillon.Target{HTTP: &target})
	task.Job.Payload = []byte(`{"user":{"name":"Ann \"A\" É"}}`)
	h := NewHTTP(loopback)
	defer h.pooled.CloseIdleConnections()
	return within(t, func() carillon.Outcome { return h.Execute(context.Background(), task) }), r
}

func TestHTTPAnswers(t *testing.T) {
	t.Parallel()
	header := func(pairs ...string) map[string]string {
		m := map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			m[pairs[i]] = pairs[i+1]
		}
		return m
	}
	wait := func(kind carillon.OutcomeKind, reason string, after time.Duration) carillon.Outcome {
		return carillon.Outcome{Kind: kind, Reason: reason, RetryAfter: after}
	}
	for _, c := range []struct {
		status int
		header map[string]string
		want   carillon.Outcome
	}{
		{200, nil, carillon.Outcome{Kind: carillon.OutcomeSuccess}},
		{204, nil, carillon.Outcome{Kind: carillon.OutcomeSuccess}},
		{299, nil, carillon.Outcome{Kind: carillon.OutcomeSuccess}},
		{
			301, header("Location", "http://127.0.0.1/else?token=x"),
			fatal(
				`HTTP 301 Moved Permanently: redirects are not followed, this one leads to "http://127.0.0.1/else?…"`,
			),
		},
		{
			307, header("Location", "http://169.254.169.254/latest"),
			fatal(
				`HTTP 307 Temporary Redirect: redirects are not followed, this one leads to "http://169.254.169.254/latest"`,
			),
		},
		{304, nil, fatal(`HTTP 304 Not Modified: redirects are not followed, this one leads to ""`)},
		{400, nil, fatal("HTTP 400 Bad Request")},
		{404, header("Retry-After", "5"), wait(carillon.OutcomeFatal, "HTTP 404 Not Found", 5*time.Second)},
		{499, nil, fatal("HTTP 499")},
		{408, nil, retriable("HTTP 408 Request Timeout")},
		{409, nil, retriable("HTTP 409 Conflict")},
		{425, nil, retriable("HTTP 425 Too Early")},
		{
			429, header("Retry-After", "120"),
			wait(carillon.OutcomeRetriable, "HTTP 429 Too Many Requests", 2*time.Minute),
		},
		{
			503, header("Retry-After", "99999999999999999999"),
			wait(carillon.OutcomeRetriable, "HTTP 503 Service Unavailable", 24*time.Hour),
		},
		{
			503, header("Retry-After", "Fri, 31 Dec 1999 23:59:59 GMT"),
			retriable("HTTP 503 Service Unavailable"),
		},
		{503, header("Retry-After", "soon"), retriable("HTTP 503 Service Unavailable")},
		{500, nil, retriable("HTTP 500 Internal Server Error")},
		{599, nil, retriable("HTTP 599")},
		{500, header("Carillon-Outcome", "success"), carillon.Outcome{Kind: carillon.OutcomeSuccess}},
		{200, header("Carillon-Outcome", "Fatal"), fatal("the target says fatal: HTTP 200 OK")},
		{
			200, header("Carillon-Outcome", "retriable", "Retry-After", "7"),
			wait(carillon.OutcomeRetriable, "the target says retriable: HTTP 200 OK", 7*time.Second),
		},
		{
			302, header("Carillon-Outcome", "retriable"),
			retriable("the target says retriable: HTTP 302 Found"),
		},
		{500, header("Carillon-Outcome", "maybe"), retriable("HTTP 500 Internal Server Error")},
	} {
		t.Run(fmt.Sprint(c.status, c.header), func(t *testing.T) {
			t.Parallel()
			o, r := callOnce(t, carillon.HTTP{URL: "/path?token=x"},
				func(w http.ResponseWriter, _ *http.Request) {
					for name, value := range c.header {
						w.Header().Set(name, value)
					}
					w.WriteHeader(c.status)
				})
			if c.want.Kind != carillon.OutcomeSuccess {
				c.want.Status = uint16(c.status)
			}
			same(t, o, c.want)
			line := regexp.MustCompile(
				`^carillon: POST http://127\.0\.0\.1:\d+/path\?… -> ` + strconv.Itoa(c.status) +
					` in [\d.]+m?s$`,
			)
			if !line.MatchString(r.lines[0]) {
				t.Errorf("line %q", r.lines[0])
			}
		})
	}
}

func TestRetryAfterDates(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		now.Add(time.Minute).Format(http.TimeFormat):    time.Minute,
		now.Add(48 * time.Hour).Format(http.TimeFormat): 24 * time.Hour,
		now.Add(-time.Hour).Format(http.TimeFormat):     0, " 3 ": 3 * time.Second, "-3": 0, "3.5": 0, "": 0,
		"0": 0, "86401": 24 * time.Hour,
	} {
		if got := retryAfter(value, now); got != want {
			t.Errorf("%q: got %s, want %s", value, got, want)
		}
	}
}

func TestHTTPRequests(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	t.Setenv("http_proxy", "http://127.0.0.1:1")
	ask := func(t *testing.T, target carillon.HTTP) (got *http.Request, body string) {
		o, _ := callOnce(t, target, func(_ http.ResponseWriter, r *http.Request) {
			b, _ := io.ReadAll(r.Body)
			got, body = r, string(b)
		})
		same(t, o, carillon.Outcome{Kind: carillon.OutcomeSuccess})
		return got, body
	}
	t.Run("say whose they are", func(t *testing.T) {
		got, body := ask(t, carillon.HTTP{
			Headers: map[string]string{"Authorization": "Bearer x", "Host": "other.example"},
		})
		task, _ := newTask(carillon.Target{})
		for name, want := range map[string]string{
			"Carillon-Run-Id": task.Run.ID.String(), "Carillon-Job-Id": task.Job.ID.String(),
			"Carillon-Attempt":   "3",
			"Carillon-Fence":     strconv.FormatInt(task.Run.Fence(), 10),
			"Carillon-Due-At":    "2026-03-20T09:46:40.000Z",
			"Carillon-Covers-At": "2026-03-20T09:46:40.000Z", "Carillon-Namespace": "default",
			"Carillon-Checkpoint": "",
			"Idempotency-Key":     task.Run.ID.String(), "Content-Type": "application/json",
			"User-Agent":    "carillon",
			"Authorization": "Bearer x", "Accept-Encoding": "",
		} {
			if got.Header.Get(name) != want {
				t.Errorf("%s: %q, want %q", name, got.Header.Get(name), want)
			}
		}
		if got.Method != "POST" || got.Host != "other.example" || body != `{"user":{"name":"Ann \"A\" É"}}` {
			t.Errorf("%s %s %s", got.Method, got.Host, body)
		}
	})
	t.Run("may have a body and headers of their own", func(t *testing.T) {
		got, body := ask(t, carillon.HTTP{
			Method: "PUT", Body: `{"text":"Hi ${payload.user.name}","n":${run.attempt},"x":${payload.no}}`,
			Headers: map[string]string{
				"content-type": "text/x", "Idempotency-Key": "mine", "User-Agent": "me",
			},
		})
		if body != `{"text":"Hi Ann \"A\" É","n":3,"x":null}` {
			t.Error(body)
		}
		if h := got.Header; h.Get("Content-Type") != "text/x" ||
			!slices.Equal(h["Idempotency-Key"], []string{"mine"}) || h.Get("User-Agent") != "me" {
			t.Error(h)
		}
	})
	t.Run("have no body where servers do not expect one", func(t *testing.T) {
		got, body := ask(t, carillon.HTTP{Method: "GET"})
		if body != "" || got.Header.Get("Content-Type") != "" || got.ContentLength != 0 {
			t.Error(body, got.Header)
		}
	})
	t.Run("are refused for a template that cannot be", func(t *testing.T) {
		o, _ := callOnce(t, carillon.HTTP{Body: "${nope}"}, func(http.ResponseWriter, *http.Request) {
			t.Error("it was sent")
		})
		if o.Kind != carillon.OutcomeFatal ||
			!strings.HasPrefix(o.Reason, "body: unknown placeholder ${nope}") {
			t.Error(o)
		}
	})
}

func TestHTTPCheckpoints(t *testing.T) {
	t.Parallel()
	answer := func(value string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Carillon-Checkpoint", value) }
	}
	largest := strings.Repeat("x", carillon.MaxCheckpoint)
	for name, c := range map[string]struct {
		header string
		saved  []string
		line   string
	}{
		"is saved": {
			base64.StdEncoding.EncodeToString([]byte("step 2")), []string{"step 2"}, "",
		},
		"is saved up to the limit": {
			base64.StdEncoding.EncodeToString([]byte(largest)), []string{largest}, "",
		},
		"is ignored if it is broken": {
			"%%%", nil, "the checkpoint in the response is not saved: illegal base64 data",
		},
		"is ignored if it is too large": {
			base64.StdEncoding.EncodeToString([]byte(largest + "x")), nil,
			"the checkpoint in the response is not saved: a checkpoint of 65537 bytes is too large",
		},
	} {
		t.Run("one in the response "+name, func(t *testing.T) {
			t.Parallel()
			o, r := callOnce(t, carillon.HTTP{}, answer(c.header))
			same(t, o, carillon.Outcome{Kind: carillon.OutcomeSuccess})
			if !slices.Equal(r.saved, c.saved) || !strings.Contains(r.output(), c.line) {
				t.Errorf("%d saved, %s", len(r.saved), r.output())
			}
		})
	}
	t.Run("the last one is sent", func(t *testing.T) {
		t.Parallel()
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, r.Header.Get("Carillon-Checkpoint"))
		}))
		defer server.Close()
		task, _ := newTask(carillon.Target{HTTP: &carillon.HTTP{URL: server.URL}})
		task.Checkpoint = []byte("step 1")
		h := NewHTTP(loopback)
		defer h.pooled.CloseIdleConnections()
		same(t, h.Execute(context.Background(), task), carillon.Outcome{
			Kind: carillon.OutcomeSuccess, Output: &carillon.Output{Result: []byte("c3RlcCAx")},
		})
	})
}

func TestHTTPResults(t *testing.T) {
	t.Parallel()
	big := strings.Repeat("x", carillon.MaxResult+1)
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   carillon.Outcome
		line   string
	}{
		"the body is the result": {
			func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"n":1}`) },
			carillon.Outcome{
				Kind: carillon.OutcomeSuccess, Output: &carillon.Output{Result: []byte(`{"n":1}`)},
			},
			"",
		},
		"a large one is cut": {
			func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, big) },
			carillon.Outcome{
				Kind: carillon.OutcomeSuccess, Output: &carillon.Output{Result: []byte(big[1:])},
			},
			"carillon: the response is cut after 65536 bytes",
		},
		"one that breaks off is no success": {
			func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", "10")
				_, _ = io.WriteString(w, "half")
			},
			carillon.Outcome{
				Kind: carillon.OutcomeRetriable, Reason: "the response broke off: unexpected EOF",
				Output: &carillon.Output{Result: []byte("half")},
			},
			"",
		},
		"headers without end are refused": {
			func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("X", strings.Repeat("x", maxHeader+10<<10))
			},
			retriable(
				"net/http: HTTP/1.x transport connection broken: net/http: server response headers exceeded %d bytes; aborted",
				maxHeader,
			), "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, r := callOnce(t, carillon.HTTP{}, c.answer)
			same(t, o, c.want)
			if !strings.Contains(r.output(), c.line) {
				t.Error(r.output())
			}
		})
	}
}

func TestHTTPEndsWithItsContext(t *testing.T) {
	t.Parallel()
	for name, head := range map[string]bool{"before the answer": false, "in the middle of the answer": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancelCause(context.Background())
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if head {
					_, _ = io.WriteString(w, "half")
					w.(http.Flusher).Flush()
				}
				cancel(ErrTimeout)
				<-r.Context().Done()
			}))
			defer server.Close()
			task, _ := newTask(carillon.Target{HTTP: &carillon.HTTP{URL: server.URL}})
			task.Job.Timeout = carillon.Duration(30 * time.Second)
			same(
				t, within(t, func() carillon.Outcome { return NewHTTP(loopback).Execute(ctx, task) }),
				retriable("timed out after 30s"),
			)
		})
	}
}

func TestAServerThatIsNotThereIsRetriable(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()
	task, _ := newTask(carillon.Target{HTTP: &carillon.HTTP{URL: "http://" + address + "/?secret=x"}})
	o := NewHTTP(loopback).Execute(context.Background(), task)
	// The connection is refused, or reset.
	if o.Kind != carillon.OutcomeRetriable ||
		!strings.HasPrefix(o.Reason, "dial tcp "+address+": connect: connection re") {
		t.Errorf("%+v", o)
	}
}

// net/http repeats requests by itself when a kept connection breaks. An attempt is one request.
func TestARequestIsNeverRepeatedBehindOurBack(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			var requests atomic.Int32
			server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
				if requests.Add(1) == 2 { // the first request made the connection reusable
					panic(http.ErrAbortHandler)
				}
			}))
			defer server.Close()
			h := NewHTTP(loopback)
			defer h.pooled.CloseIdleConnections()
			task, _ := newTask(carillon.Target{
				HTTP: &carillon.HTTP{
					Method: method, URL: server.URL, Headers: map[string]string{"X-Idempotency-Key": "1"},
				},
			})
			same(t, h.Execute(context.Background(), task), carillon.Outcome{Kind: carillon.OutcomeSuccess})
			same(t, h.Execute(context.Background(), task), retriable("EOF"))
			if n := requests.Load(); n != 2 {
				t.Errorf("%d requests for two attempts", n)
			}
		})
	}
}
