package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/client"
)

func TestOnlyAnAddressMakesAClient(t *testing.T) {
	for _, url := range []string{"", "127.0.0.1:8420", "ftp://host", "http://", "http://a b"} {
		if _, err := client.New(client.Config{URL: url}); err == nil {
			t.Errorf("%q was taken", url)
		}
	}
}

func TestARefusalReadsWellAndIsASentinel(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		kind   string
		body   string
		want   string
		is     error
	}{
		"a bad field": {
			400, "application/problem+json",
			`{"type":"urn:carillon:problem:invalid","title":"Invalid input","detail":"long","field":"schedule.every","given":"1ms","want":"at least 1s"}`,
			`schedule.every: "1ms" is not valid: want at least 1s`, carillon.ErrInvalid,
		},
		"not found": {
			404, "application/problem+json", `{"detail":"there is no job x"}`, "there is no job x",
			carillon.ErrNotFound,
		},
		"a conflict": {
			409, "application/problem+json; charset=utf-8",
			`{"type":"urn:carillon:problem:conflict","detail":"canceled already"}`,
			"canceled already", carillon.ErrConflict,
		},
		"a lost fence": {
			409, "application/problem+json", `{"type":"urn:carillon:problem:lost","detail":"not yours"}`,
			"not yours", carillon.ErrLost,
		},
		"a session that is over": {
			410, "application/problem+json", `{"type":"urn:carillon:problem:session-over","detail":"register"}`,
			"register", carillon.ErrSessionOver,
		},
		"another version": {
			412, "application/problem+json", `{"detail":"version 3"}`, "version 3", carillon.ErrConflict,
		},
		"too many jobs": {
			429, "application/problem+json",
			`{"type":"urn:carillon:problem:overloaded","detail":"try again in 3s"}`, "try again in 3s", nil,
		},
		"not ready": {
			503, "application/problem+json", `{"reasons":["store: away","disk: full"]}`,
			"not ready: store: away; disk: full", nil,
		},
		"a bug": {
			500, "application/problem+json", `{"title":"Internal error"}`,
			"the server answered 500: Internal error (request r1)", nil,
		},
		"another owner": {
			502, "text/plain", "upstream is away\nsorry",
			"the server answered 502: not an answer of Carillon: 502 Bad Gateway: upstream is away (request r1)",
			nil,
		},
		"a page": {403, "text/html", "<html>", "not an answer of Carillon: 403 Forbidden", nil},
		"a broken problem": {
			400, "application/problem+json", `{`, "not an answer of Carillon: 400 Bad Request",
			carillon.ErrInvalid,
		},
	} {
		t.Run(name, func(t *testing.T) {
			web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", c.kind)
				w.Header().Set("X-Request-Id", "r1")
				w.WriteHeader(c.status)
				fmt.Fprint(w, c.body)
			}))
			defer web.Close()
			err := newClient(t, web.URL).Ready(t.Context())
			var problem *client.Problem
			if !errors.As(err, &problem) || problem.Status != c.status || err.Error() != c.want {
				t.Errorf("got %q, want %q", err, c.want)
			}
			for _, sentinel := range []error{
				carillon.ErrInvalid, carillon.ErrNotFound, carillon.ErrConflict, carillon.ErrLost,
				carillon.ErrPermanent, carillon.ErrSessionOver,
			} {
				if errors.Is(err, sentinel) != (sentinel == c.is) {
					t.Errorf("is %q: %v", sentinel, errors.Is(err, sentinel))
				}
			}
		})
	}
}

func TestNoReadIsRepeatedAndNoRedirectFollowed(t *testing.T) {
	var calls atomic.Int32
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		if r.URL.Path == "/readyz" {
			http.Redirect(w, r, "/login", http.StatusFound)
			return
		}
		panic(http.ErrAbortHandler) // the connection is cut after the request was taken
	}))
	defer web.Close()
	c := newClient(t, web.URL)
	_, err := c.Job(t.Context(), 1)
	var away *client.Unreachable
	if !errors.As(err, &away) || calls.Load() != 1 {
		t.Errorf("%d calls: %v", calls.Load(), err)
	}
	err = c.Ready(t.Context())
	if err == nil || !strings.Contains(err.Error(), "302 Found to /login") || calls.Load() != 2 {
		t.Errorf("%d calls: %v", calls.Load(), err)
	}
}

func TestEveryCallHasAPathBehindThePrefixAndTheToken(t *testing.T) {
	var path, auth string
	web := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		path, auth = r.URL.Path, r.Header.Get("Authorization")
	}))
	defer web.Close()
	if err := newClient(t, web.URL+"/carillon/").Ready(t.Context()); err != nil ||
		path != "/carillon/readyz" || auth != "Bearer "+token {
		t.Errorf("%s %q %v", path, auth, err)
	}
}

func TestAServerThatIsSilentIsUnreachable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent := &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})}
		c, err := client.New(client.Config{URL: "http://silent.test", HTTP: silent})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		_, err = c.Job(t.Context(), 1)
		var away *client.Unreachable
		if !errors.As(err, &away) || time.Since(began) != time.Minute {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		stop := errors.New("seen enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(stop)
		if _, err = c.Job(ctx, 1); !errors.Is(err, stop) || !errors.Is(err, context.Canceled) ||
			errors.As(err, &away) {
			t.Errorf("canceled: %v", err)
		}
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
