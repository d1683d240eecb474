package main

import (
	"errors"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/carillon-run/carillon/internal/wire"
)

// cut is a transport that loses the answers to some requests.
type cut struct {
	to      http.RoundTripper
	lose    int
	refuses bool // it does not even send them
	keys    []string
}

func (c *cut) RoundTrip(r *http.Request) (*http.Response, error) {
	c.keys = append(c.keys, r.Header.Get(wire.IdempotencyHeader))
	if c.lose--; c.lose < 0 {
		return c.to.RoundTrip(r)
	}
	if c.refuses {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
	}
	answer, err := c.to.RoundTrip(r)
	if err == nil {
		answer.Body.Close()
	}
	return nil, errors.New("connection reset by peer")
}

// through lets the answers to the next requests be lost.
func (h *house) through(c cut) *cut {
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
		way := h.through(cut{lose: 1})
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
		h.through(cut{lose: 99})
		text, code := h.run(append(args, "--", "true")...)
		found := regexp.MustCompile(`same command again with --idempotency-key (\w+):`).FindStringSubmatch(text)
		if code != exitUnreachable || found == nil {
			t.Fatalf("exit code %d: %s", code, text)
		}
		h.through(cut{})
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
		for _, key := range []string{"", strings.Repeat("k", 1024)} {
			text, code = h.run(append(args, "--idempotency-key", key, "--", "false")...)
			if code != exitUsage || !strings.Contains(strings.ToLower(text), "idempotency-key") {
				t.Errorf("exit code %d: %s", code, text)
			}
		}
	})
}

func TestACommandThatCannotConnectFailsAtOnce(t *testing.T) {
	inHouse(t, "", func(h *house) {
		way := h.through(cut{lose: 99, refuses: true})
		text, code := h.run("submit", "--", "true")
		if code != exitUnreachable || len(way.keys) != 1 || strings.Contains(text, "idempotency") {
			t.Errorf("exit code %d after %d tries: %s", code, len(way.keys), text)
		}
	})
}

func TestBatchesOfOneFileHaveKeysOfTheirOwn(t *testing.T) {
	inHouse(t, "", func(h *house) {
		way := h.through(cut{lose: 1})
		h.in = strings.Repeat(`{"target":{"command":{"argv":["true"]}},"schedule":{"after":"1h"}}`+"\n", 2500)
		for range 2 {
			if text, code := h.run("submit", "-q", "-f", "-", "--idempotency-key", "file"); code != exitOK ||
				strings.Count(text, "job_") != 2500 {
				t.Fatalf("exit code %d: %s", code, text[:min(len(text), 200)])
			}
		}
		want := []string{"file/0", "file/0", "file/1000", "file/2000", "file/0", "file/1000", "file/2000"}
		if !slices.Equal(way.keys, want) {
			t.Errorf("keys %q, want %q", way.keys, want)
		}
	})
}
