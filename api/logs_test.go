package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/api"
)

func TestLogsAreLinesOrItems(t *testing.T) {
	h := newHouse(t, nil)
	id := h.submit(with(`"retry":{"delay":"0s"}`))
	first := h.claim(id)
	logs := "/v1/runs/" + first.ID.String() + "/logs"
	if a := h.call("GET", logs, "").is(200); a.Body.Len() > 0 {
		t.Errorf("an empty log is %q", a.Body)
	}
	if a := h.call("GET", logs, "", "Accept: application/json").is(200); len(a.json()["items"].([]any)) > 0 {
		t.Errorf("an empty log is %q", a.Body)
	}
	h.print(first, 0, "a <1>", "b")
	h.finish(first, carillon.Outcome{Kind: carillon.OutcomeRetriable})
	second := h.claim(id)
	h.print(second, 0, "c")
	h.finish(second, carillon.Outcome{Kind: carillon.OutcomeSuccess})
	for query, want := range map[string]string{
		"": "a <1>\nb\nc\n", "?attempt=1": "a <1>\nb\n", "?attempt=2": "c\n", "?attempt=3": "",
		"?follow=true":  "a <1>\nb\nc\n",
		"?follow=false": "a <1>\nb\nc\n", "?follow=true&attempt=1": "a <1>\nb\n",
		"?follow=true&attempt=9": "",
	} {
		a := h.call("GET", logs+query, "").is(200)
		if a.Body.String() != want || a.Header().Get("Content-Type") != "text/plain; charset=utf-8" {
			t.Errorf("%s: %q %v", query, a.Body, a.Header())
		}
	}
	for accept, isJSON := range map[string]bool{
		"application/json": true, "application/json;q=0.9, text/plain": true,
		"text/plain, application/json": false, "*/*": false, "text/html": false,
	} {
		if got := h.call(
			"GET", logs, "", "Accept: "+accept,
		).is(200).Header().Get("Content-Type"); isJSON != (got == "application/json") {
			t.Errorf("Accept %s gives %s", accept, got)
		}
	}
	var items struct{ Items []carillon.Line }
	if err := json.Unmarshal(
		h.call("GET", logs, "", "Accept: application/json").Body.Bytes(), &items,
	); err != nil {
		t.Fatal(err)
	}
	if len(items.Items) != 3 || items.Items[0].Text != "a <1>" || items.Items[0].Stream != "stdout" ||
		items.Items[2].Attempt != 2 || items.Items[0].At == 0 {
		t.Errorf("the items are %+v", items.Items)
	}
	h.call("HEAD", logs+"?follow=true", "").is(200)
	h.call("GET", "/v1/runs/run_00000000000010000000001/logs?follow=true", "").problem(404, "")
}

func TestThePartOfALogThatIsAskedForIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, nil)
		id := h.submit(with(`"retry":{"delay":"1h","jitter":0}`))
		first := h.claim(id)
		began := carillon.Now()
		for i := range 1300 { // a line a second
			h.print(first, int64(i), fmt.Sprint("1:", i))
			time.Sleep(time.Second)
		}
		h.finish(first, carillon.Outcome{Kind: carillon.OutcomeRetriable})
		time.Sleep(time.Hour)
		second := h.claim(id)
		h.print(second, 0, "2:0", "2:1", "2:2")
		h.finish(second, carillon.Outcome{Kind: carillon.OutcomeSuccess})
		all := strings.Split(
			strings.TrimSpace(h.call("GET", "/v1/runs/"+first.ID.String()+"/logs", "").is(200).Body.String()),
			"\n",
		)
		logs := "/v1/runs/" + first.ID.String() + "/logs?"
		since := func(d time.Duration) string { return "since=" + began.Add(d).String() }
		last := func(n int) []string { return all[len(all)-n:] }
		for query, want := range map[string][]string{
			"tail=1": last(1), "tail=3": last(3), "tail=4": last(4), "tail=5": last(5),
			"tail=1000": last(1000), "tail=1303": all, "tail=99999": all,
			"tail=2&attempt=1": all[1298:1300], "tail=2&attempt=2": last(2), "attempt=2&tail=7": last(3),
			"attempt=7&tail=7": nil,
			since(0):           all, since(-time.Hour): all, since(700 * time.Second): all[700:],
			since(1299*time.Second + 1): last(3),
			since(1301 * time.Second):   last(3), since(9 * time.Hour): nil,
			since(700*time.Second) + "&tail=10":   last(10),
			since(1299*time.Second) + "&tail=900": last(4),
			since(700*time.Second) + "&attempt=1": all[700:1300],
			"after=1:1298":                        last(4), "after=2:2": nil, "after=1:5&attempt=2": last(3),
			"follow=true&tail=2": last(2),
		} {
			var sent []string
			if text := h.call("GET", logs+query, "").is(200).Body.String(); text != "" {
				sent = strings.Split(strings.TrimSpace(text), "\n")
			}
			if !slices.Equal(sent, want) {
				t.Errorf("%s: %d lines %.60q, want %d %.60q", query, len(sent), sent, len(want), want)
			}
		}
		for query, field := range map[string]string{
			"tail=0": "tail", "tail=x": "tail", "since=x": "since", "after=1": "after", "after=0:1": "after",
			"after=x:y": "after",
		} {
			h.call("GET", logs+query, "").problem(400, field)
		}
	})
}

func TestTheTailOfManyAttemptsIsNotTheWholeLog(t *testing.T) {
	h := newHouse(t, nil)
	job := h.submit(with(`"retry":{"max_attempts":1000,"delay":"0s"}`))
	var run carillon.Run
	for i := range 150 {
		run = h.claim(job)
		h.print(run, 0, fmt.Sprint(i+1))
		h.finish(run, carillon.Outcome{Kind: carillon.OutcomeRetriable})
	}
	// Only the last 100 attempts are searched.
	for tail, first := range map[int]string{1: "150", 100: "51", 140: "51", 150: "51", 9999: "51"} {
		text := h.call("GET", fmt.Sprintf("/v1/runs/%s/logs?tail=%d", run.ID, tail), "").is(200).Body.String()
		if got, _, _ := strings.Cut(text, "\n"); got != first || !strings.HasSuffix(text, "150\n") {
			t.Errorf("the last %d begin with %q, want %q", tail, got, first)
		}
	}
}

func TestALineWithTheLargestOffsetDoesNotKeepAReaderSearching(t *testing.T) {
	for _, offset := range []int64{
		1 << 53, math.MaxInt64 / 2, math.MaxInt64/2 + 1, math.MaxInt64 - 1, math.MaxInt64,
	} {
		for _, query := range []string{
			"tail=1", "since=2020-01-01T00:00:00Z", "since=2099-01-01T00:00:00Z&tail=2",
		} {
			h := newHouse(t, func(c *api.Config) { c.Logs = &flaky{c.Logs, 500} })
			run := h.claim(h.submit(echo))
			h.print(run, 0, "a")
			h.print(run, offset, "z")
			if a := h.call("GET", fmt.Sprintf("/v1/runs/%s/logs?%s", run.ID, query), ""); a.Code != 200 {
				t.Errorf("offset %d, %s: %s", offset, query, a.Body)
			}
		}
	}
}

func TestALongLogIsSentWhole(t *testing.T) {
	h := newHouse(t, nil)
	run := h.claim(h.submit(echo))
	var lines []string
	for i := range 2500 {
		lines = append(lines, fmt.Sprint("line ", i))
	}
	h.print(run, 0, lines...)
	if got := h.call(
		"GET", "/v1/runs/"+run.ID.String()+"/logs", "",
	).is(200).Body.String(); got != strings.Join(lines, "\n")+"\n" {
		t.Errorf("sent %d bytes", len(got))
	}
}

// reader follows a log. A test can look at what was flushed to it while the request goes on.
type reader struct {
	*httptest.ResponseRecorder
	mu      sync.Mutex
	status  int      // as of the last flush
	flushed string   // likewise
	done    chan any // what the handler panicked with
	leave   context.CancelFunc
}

// follow begins to follow a log in the background.
func (h *house) follow(path string, headers ...string) *reader {
	ctx, cancel := context.WithCancel(context.Background())
	f := &reader{ResponseRecorder: httptest.NewRecorder(), done: make(chan any, 1), leave: cancel}
	h.t.Cleanup(cancel)
	r := httptest.NewRequestWithContext(ctx, "GET", path, nil)
	r.Header.Set("Authorization", "Bearer "+token)
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		r.Header.Set(name, value)
	}
	go func() {
		defer func() { f.done <- recover() }()
		h.ServeHTTP(f, r)
		f.Flush()
	}()
	return f
}

func (f *reader) Flush() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.status, f.flushed = f.Code, f.Body.String()
}

// sight returns what the reader has received once nothing moves any more.
func (f *reader) sight() (status int, text string) {
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.status, f.flushed
}

func (f *reader) sees(t *testing.T, want string) {
	t.Helper()
	if status, text := f.sight(); text != want || status != 200 {
		t.Errorf("the reader sees %d %q, want %q", status, text, want)
	}
}

// ended fails the test unless the handler has returned by now.
func (f *reader) ended(t *testing.T) any {
	t.Helper()
	synctest.Wait()
	select {
	case cause := <-f.done:
		return cause
	default:
		t.Fatal("the reader is still served")
		return nil
	}
}

func (f *reader) going(t *testing.T) {
	t.Helper()
	synctest.Wait()
	if len(f.done) > 0 {
		t.Fatal("the reader is no longer served")
	}
}

func TestAFollowedLogComesAsItIsPrintedAndEndsWithTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, nil)
		id := h.submit(schedule(`"after":"1m"`))
		f := h.follow(
			"/v1/runs/" + h.call("GET", "/v1/jobs/"+id, "").text("next_run.id") + "/logs?follow=true",
		)
		f.sees(t, "") // a follower of a run that has not begun is answered at once
		time.Sleep(time.Minute)
		run := h.claim(id)
		h.print(run, 0, "one")
		time.Sleep(250 * time.Millisecond)
		f.sees(t, "one\n")
		h.print(run, 1, "two", "three")
		time.Sleep(250 * time.Millisecond)
		f.sees(t, "one\ntwo\nthree\n")
		time.Sleep(5 * time.Minute)
		f.going(t)
		h.print(run, 3, "last words")
		h.finish(run, carillon.Outcome{Kind: carillon.OutcomeSuccess})
		f.sees(t, "one\ntwo\nthree\nlast words\n") // the bus tells the follower at once
		if cause := f.ended(t); cause != nil {
			t.Errorf("cut off with %v", cause)
		}
	})
}

func TestWithoutABusTheEndIsFoundByLooking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, func(c *api.Config) { c.Events = nil })
		run := h.claim(h.submit(echo))
		f := h.follow("/v1/runs/" + run.ID.String() + "/logs?follow=true")
		f.going(t)
		h.print(run, 0, "a")
		h.finish(run, carillon.Outcome{Kind: carillon.OutcomeSuccess})
		f.going(t)
		time.Sleep(250 * time.Millisecond)
		f.sees(t, "a\n")
		f.ended(t)
	})
}

func TestAFollowedAttemptEndsWithTheAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, nil)
		id := h.submit(with(`"retry":{"delay":"10m","jitter":0}`))
		run := h.claim(id)
		logs := "/v1/runs/" + run.ID.String() + "/logs?follow=true"
		first, second, all := h.follow(logs+"&attempt=1"), h.follow(logs+"&attempt=2"), h.follow(logs)
		h.print(run, 0, "a")
		h.finish(run, carillon.Outcome{Kind: carillon.OutcomeRetriable})
		first.sees(t, "a\n")
		first.ended(t)
		all.sees(t, "a\n")
		all.going(t)
		second.going(t)
		time.Sleep(10 * time.Minute)
		run = h.claim(id)
		h.print(run, 0, "b")
		h.finish(run, carillon.Outcome{Kind: carillon.OutcomeSuccess})
		second.sees(t, "b\n")
		second.ended(t)
		all.sees(t, "a\nb\n")
		all.ended(t)
	})
}

func TestFollowedItemsAreOneDocumentInTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, nil)
		run := h.claim(h.submit(echo))
		f := h.follow("/v1/runs/"+run.ID.String()+"/logs?follow=true", "Accept: application/json")
		f.sees(t, `{"items":[`)
		h.print(run, 0, "a", "b")
		time.Sleep(250 * time.Millisecond)
		f.going(t)
		if _, text := f.sight(); strings.Count(text, "\n") != 2 {
			t.Errorf("two items so far: %s", text)
		}
		h.print(run, 2, "c")
		h.finish(run, carillon.Outcome{Kind: carillon.OutcomeSuccess})
		f.ended(t)
		var doc struct{ Items []carillon.Line }
		if err := json.Unmarshal(f.Body.Bytes(), &doc); err != nil || len(doc.Items) != 3 ||
			doc.Items[2].Text != "c" {
			t.Errorf("the document is %s, %v", f.Body, err)
		}
	})
}

func TestWhoLeavesIsServedNoLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, nil)
		run := h.claim(h.submit(echo))
		f := h.follow("/v1/runs/" + run.ID.String() + "/logs?follow=true")
		f.going(t)
		f.leave()
		f.ended(t)
		if h.bus.Listening() {
			t.Error("the bus still has a listener for a caller that has left")
		}
	})
}

// flaky is a log store that answers a few times and then fails.
type flaky struct {
	carillon.LogStore
	good int
}

func (l *flaky) Read(ctx context.Context, q carillon.LogQuery) ([]carillon.Line, error) {
	if l.good--; l.good < 0 {
		return nil, errors.New("disk on fire")
	}
	return l.LogStore.Read(ctx, q)
}

func TestALogThatBreaksOffIsNotTakenForTheWhole(t *testing.T) {
	for good, follow := range map[int]bool{0: true, 1: true} {
		synctest.Test(t, func(t *testing.T) {
			h := newHouse(t, func(c *api.Config) { c.Logs = &flaky{c.Logs, good} })
			run := h.claim(h.submit(echo))
			h.print(run, 0, "a")
			f := h.follow(fmt.Sprintf("/v1/runs/%s/logs?follow=%v", run.ID, follow))
			time.Sleep(time.Second)
			cause := f.ended(t)
			if good == 0 && (cause != nil || f.Code != 503) {
				t.Errorf("before the first line: %v, %d", cause, f.Code)
			}
			if good == 1 && cause != http.ErrAbortHandler {
				t.Errorf("in the middle: %v, %s", cause, f.Body)
			}
		})
	}
}
