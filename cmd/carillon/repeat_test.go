package main

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/carillon-run/carillon/internal/wire"
)

// fault is what happens to a request on its way.
type fault int

const (
	fine    fault = iota
	lost          // the server performs it, and its answer is lost
	refused       // there is no connection
	full          // the server answers 429, and does not ask for another try
)

// cut is a transport on which the first requests have faults.
type cut struct {
	to     http.RoundTripper
	faults []fault
	keys   []string // of all requests
}

func (c *cut) RoundTrip(r *http.Request) (*http.Response, error) {
	c.keys = append(c.keys, r.Header.Get(wire.IdempotencyHeader))
	var fault fault
	if len(c.faults) > 0 {
		fault, c.faults = c.faults[0], c.faults[1:]
	}
	switch fault {
	case refused:
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
	case full:
		w := httptest.NewRecorder()
		w.WriteHeader(http.StatusTooManyRequests)
		return w.Result(), nil
	}
	answer, err := c.to.RoundTrip(r)
	if err == nil && fault == lost {
		answer.Body.Close()
		return nil, errors.New("connection reset by peer")
	}
	return answer, err
}

// through gives the next requests faults.
func (h *house) through(faults ...fault) *cut {
	c := cut{faults: faults}
	if before, ok := h.app.http.Transport.(*cut); ok {
		c.to = before.to
	} else {
		c.to = h.app.http.Transport
	}
	h.app.http = &http.Client{Transport: &c}
	return &c
}

func TestASubmitWhoseAnswerIsLostIsSentAgain(t *testing.T) {
	inHouse(t, "", func(h *house) {
		way := h.through(lost)
		text, code := h.run("submit", "-q", "--after", "1h", "--", "true")
		if code != exitOK || !strings.Contains(text, "connection reset by peer; trying again in 1") {
			t.Errorf("exit code %d: %s", code, text)
		}
		if len(way.keys) != 2 || way.keys[0] == "" || way.keys[0] != way.keys[1] {
			t.Errorf("keys %q", way.keys)
		}
		if jobs, _ := h.run("jobs", "-o", "json"); strings.Count(jobs, `"id": "job_`) != 1 {
			t.Errorf("jobs: %s", jobs)
		}
	})
}

func TestACommandThatGaveUpSaysHowToGiveItAgain(t *testing.T) {
	inHouse(t, "", func(h *house) {
		args := []string{"submit", "-q", "--after", "1h"}
		h.through(slices.Repeat([]fault{lost}, 99)...)
		text, code := h.run(append(args, "--", "true")...)
		found := regexp.MustCompile(`same command again with --idempotency-key ([\w-]+):`).FindStringSubmatch(text)
		if code != exitUnreachable || found == nil {
			t.Fatalf("exit code %d: %s", code, text)
		}
		h.through()
		var ids []string
		for range 2 {
			id, code := h.run(append(args, "--idempotency-key", found[1], "--", "true")...)
			if ids = append(ids, id); code != exitOK || id != ids[0] {
				t.Errorf("exit code %d: %q", code, ids)
			}
		}
		if jobs, _ := h.run("jobs", "-o", "json"); strings.Count(jobs, `"id": "job_`) != 1 {
			t.Errorf("jobs: %s", jobs)
		}
		text, code = h.run(append(args, "--idempotency-key", found[1], "--", "false")...)
		if code != exitUsage || !strings.Contains(text, "for another request") {
			t.Errorf("another job, exit code %d: %s", code, text)
		}
		for _, key := range []string{"", " k", "\u00fc", strings.Repeat("k", 1024)} {
			text, code = h.run(append(args, "--idempotency-key", key, "--", "false")...)
			if code != exitUsage || !strings.Contains(text, "carillon: --idempotency-key: ") {
				t.Errorf("exit code %d: %s", code, text)
			}
		}
	})
}

func TestACommandThatCannotConnectFailsAtOnce(t *testing.T) {
	inHouse(t, "", func(h *house) {
		way := h.through(slices.Repeat([]fault{refused}, 99)...)
		text, code := h.run("submit", "--", "true")
		if code != exitUnreachable || len(way.keys) != 1 || strings.Contains(text, "idempotency") {
			t.Errorf("exit code %d after %d tries: %s", code, len(way.keys), text)
		}
	})
}

func TestARefusalAfterALostAnswerDoesNotSayThatNothingWasSubmitted(t *testing.T) {
	inHouse(t, "", func(h *house) {
		h.in = jobLines(3)
		for _, last := range []struct {
			faults []fault
			code   int
		}{
			{[]fault{lost, full}, exitFailed},
			{[]fault{lost, refused, refused, refused, refused}, exitUnreachable},
		} {
			way := h.through(last.faults...)
			text, code := h.run("submit", "-q", "-f", "-")
			if code != last.code || !strings.Contains(text, "carillon: it is not known whether") ||
				!strings.Contains(text, "Whether jobs 1 to 3 (up to the one at line 3) were submitted is not known.") ||
				!strings.Contains(text, "same command again with --idempotency-key "+way.keys[0]+":") {
				t.Errorf("exit code %d: %s", code, text)
			}
		}
		for _, known := range []fault{full, refused} {
			h.through(known)
			text, code := h.run("submit", "-q", "-f", "-")
			if code == exitOK || !strings.Contains(text, "Nothing of it was submitted.") ||
				strings.Contains(text, "--idempotency-key") {
				t.Errorf("exit code %d: %s", code, text)
			}
		}
	})
}

// jobLines is a file of jobs that are due in an hour.
func jobLines(n int) string {
	return strings.Repeat(`{"target":{"command":{"argv":["true"]}},"schedule":{"after":"1h"}}`+"\n", n)
}

func TestBatchesOfOneFileHaveKeysOfTheirOwn(t *testing.T) {
	inHouse(t, "", func(h *house) {
		way := h.through(lost)
		for _, n := range []int{2500, 2500} {
			h.in = jobLines(n)
			if text, code := h.run("submit", "-q", "-f", "-", "--idempotency-key", "file"); code != exitOK ||
				strings.Count(text, "job_") != n {
				t.Fatalf("exit code %d: %s", code, text[:min(len(text), 200)])
			}
		}
		want := []string{"file", "file", "file/1000", "file/2000", "file", "file/1000", "file/2000"}
		if !slices.Equal(way.keys, want) {
			t.Errorf("keys %q, want %q", way.keys, want)
		}
	})
}

func TestJobsThatAreAddedToAFileOf1000AreSubmittedAlone(t *testing.T) {
	inHouse(t, "", func(h *house) {
		for _, n := range []int{1000, 1001} {
			h.in = jobLines(n)
			if text, code := h.run("submit", "-q", "-f", "-", "--idempotency-key", "file"); code != exitOK {
				t.Fatalf("exit code %d: %s", code, text)
			}
		}
		if jobs, _ := h.run("jobs", "--limit", "0", "-o", "json"); strings.Count(jobs, `"id": "job_`) != 1001 {
			t.Errorf("%d jobs", strings.Count(jobs, `"id": "job_`))
		}
	})
}

func TestAServerThatRestartsBetweenTwoBatchesIsWaitedFor(t *testing.T) {
	inHouse(t, "", func(h *house) {
		h.in = jobLines(1500)
		h.through(fine, refused, refused)
		if text, code := h.run("submit", "-q", "-f", "-"); code != exitOK || strings.Count(text, "job_") != 1500 {
			t.Errorf("exit code %d: %s", code, text[:min(len(text), 200)])
		}
		for _, faults := range [][]fault{{fine, refused, refused, refused, refused, refused}, {fine, full}} {
			way := h.through(faults...)
			text, code := h.run("submit", "-q", "-f", "-")
			if code == exitOK || len(way.keys) != len(faults) ||
				!strings.Contains(text, "The first 1000 jobs were submitted, up to the one at line 1000; those after were not.") ||
				!strings.Contains(text, "same command again with --idempotency-key "+way.keys[0]+":") {
				t.Errorf("exit code %d after %d requests: %s", code, len(way.keys), text[max(0, len(text)-500):])
			}
		}
	})
}

func TestAKeyThatIsTooLongForAllBatchesIsRefusedBeforeTheFirst(t *testing.T) {
	inHouse(t, "", func(h *house) {
		for i, c := range []struct{ jobs, key, code int }{
			{1001, 250, exitOK},
			{1001, 251, exitUsage},
			{1000, 255, exitOK},
			{1, 255, exitOK},
			{1, 256, exitUsage},
		} {
			way := h.through()
			h.in = jobLines(c.jobs)
			text, code := h.run("submit", "-q", "-f", "-", "--idempotency-key", strings.Repeat(string(rune('a'+i)), c.key))
			if code != c.code || code != exitOK &&
				(len(way.keys) > 0 || !strings.Contains(text, "--idempotency-key: ")) {
				t.Errorf("%d jobs, a key of %d: exit code %d after %d requests: %s",
					c.jobs, c.key, code, len(way.keys), text[:min(len(text), 300)])
			}
		}
	})
}
