package client_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/client"
)

// logServer answers each request with the next of these bodies; after the last there is no server.
func logServer(t *testing.T, bodies ...string) *client.Client {
	t.Helper()
	c, err := client.New(client.Config{URL: "http://logs.test", HTTP: &http.Client{
		Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			if len(bodies) == 0 {
				return nil, errors.New("connection refused")
			}
			answer := &http.Response{
				StatusCode: http.StatusOK, Request: r, Body: io.NopCloser(strings.NewReader(bodies[0])),
			}
			if strings.HasPrefix(bodies[0], "5") {
				answer.StatusCode = http.StatusServiceUnavailable
			}
			bodies = bodies[1:]
			return answer, nil
		}),
	}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func items(texts ...string) string {
	var b strings.Builder
	b.WriteString(`{"items":[`)
	for i, text := range texts {
		if i > 0 {
			b.WriteString(",")
		}
		attempt := 1 + strings.Count(text, "'") // a' is of the second
		fmt.Fprintf(
			&b, `{"at":"2026-03-28T12:00:00.000Z","stream":"stdout","text":%q,"attempt":%d,"offset":%d}`+"\n",
			text, attempt, i,
		)
	}
	return b.String()
}

const end = "]}\n"

func TestFollowingALog(t *testing.T) {
	for name, c := range map[string]struct {
		bodies []string
		follow bool
		want   []string
		broken bool
		took   time.Duration
	}{
		"all at once": {
			bodies: []string{items("a", "b") + end}, want: []string{"a", "b"},
		},
		"nothing printed": {bodies: []string{items() + end}},
		"a log that breaks off is an error": {
			bodies: []string{items("a")}, want: []string{"a"}, broken: true,
		},
		"so is one that is no log": {bodies: []string{`{"other":1}`}, broken: true},
		"following goes on after the last line": {
			bodies: []string{
				items("a", "b"), strings.Replace(items("c"), `"offset":0`, `"offset":2`, 1) + end,
			}, follow: true,
			want: []string{"a", "b", "c"}, took: 250 * time.Millisecond,
		},
		"following goes on where it broke": {
			bodies: []string{items("a"), items("a", "b"), items("a", "b", "c") + end}, follow: true,
			want: []string{"a", "b", "c"}, took: 500 * time.Millisecond,
		},
		"and waits for a server that is back": {
			bodies: []string{items("a"), "503", items("a", "b") + end}, follow: true,
			want: []string{"a", "b"}, took: 750 * time.Millisecond,
		},
		"even if that has lost lines": {
			bodies: []string{items("a", "b"), items("a", "c'") + end}, follow: true,
			want: []string{"a", "b", "c'"}, took: 250 * time.Millisecond,
		},
		"but not for ever": {
			bodies: []string{items("a")}, follow: true, want: []string{"a"}, broken: true,
			took: 19750 * time.Millisecond,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				var got []string
				var failed error
				for line, err := range logServer(t, c.bodies...).Logs(
					t.Context(), carillon.RunID{Job: 1, Due: 1}, client.LogQuery{Follow: c.follow},
				) {
					if failed = err; err == nil {
						got = append(got, line.Text)
					}
				}
				var away *client.Unreachable
				if !slices.Equal(got, c.want) || errors.As(failed, &away) != c.broken ||
					time.Since(began) != c.took {
					t.Errorf(
						"%q, %v after %s; want %q after %s", got, failed, time.Since(began), c.want, c.took,
					)
				}
			})
		})
	}
}

func TestALogNeedNotBeReadToItsEnd(t *testing.T) {
	for line, err := range logServer(t, items("a", "b")).Logs(
		t.Context(), carillon.RunID{Job: 1, Due: 1}, client.LogQuery{Follow: true},
	) {
		if err != nil || line.Text != "a" {
			t.Errorf("%q, %v", line.Text, err)
		}
		break
	}
}
