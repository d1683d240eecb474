package api_test

import (
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// What a caller sees must not depend on who answers it.

// refused sends a submit that is refused, and reads its answer: from then on the Refuser has the connection.
func (h *refusing) refused() {
	h.t.Helper()
	h.crowded.Store(true)
	h.send(rawRequest("POST", "/v1/jobs", echo))
	h.answered(429)
}

func TestASubmitWhoseBodyDoesNotComeIsRefused(t *testing.T) {
	withAndWithout(t, func(t *testing.T, h *refusing) {
		h.refused()
		began := time.Now()
		h.send("POST /v1/jobs HTTP/1.1\r\nHost: carillon\r\nAuthorization: Bearer " + token +
			"\r\nContent-Length: 100\r\n\r\n{")
		if answer, _ := h.answered(429); !answer.Close || time.Since(began) > time.Second {
			t.Errorf("after %s, the connection closes: %t", time.Since(began), answer.Close)
		}
		if b, err := h.in.ReadByte(); err != io.EOF {
			t.Errorf("read %q, %v", b, err)
		}
	})
}

func TestACallerThatDoesNotReadItsAnswerIsLeft(t *testing.T) {
	for _, stops := range []bool{false, true} {
		withAndWithout(t, func(t *testing.T, h *refusing) {
			h.crowded.Store(true)
			h.send(rawRequest("POST", "/v1/jobs", echo))
			synctest.Wait()
			if stops {
				_ = h.server.Close()
			}
			time.Sleep(time.Hour)
			if b, err := h.in.ReadByte(); err == nil {
				t.Errorf("after an hour the server still waits with its answer: %q", b)
			}
		})
	}
}

func TestASubmitAtTheEndOfTheIdleTimeIsAnswered(t *testing.T) {
	withAndWithout(t, func(t *testing.T, h *refusing) {
		h.refused()
		time.Sleep(2*time.Minute - 100*time.Millisecond)
		r := rawRequest("POST", "/v1/jobs", echo)
		h.send(r[:len(r)-len(echo)])
		time.Sleep(200 * time.Millisecond)
		h.send(echo)
		h.answered(429)
	})
}

func TestAnOldCallerIsToldThatItsConnectionStays(t *testing.T) {
	withAndWithout(t, func(t *testing.T, h *refusing) {
		h.crowded.Store(true)
		r := rawRequest("POST", "/v1/jobs", echo, "Connection: keep-alive")
		h.send(strings.Replace(r, "HTTP/1.1", "HTTP/1.0", 1))
		if answer, _ := h.answered(429); answer.Header.Get("Connection") != "keep-alive" {
			t.Errorf("%s, Connection %q", answer.Proto, answer.Header.Get("Connection"))
		}
	})
}

func TestWhatIsNoPlainHeadIsAnsweredAtOnce(t *testing.T) {
	for name, c := range map[string]struct {
		text   string
		status int
	}{
		"lines without CR":    {strings.ReplaceAll(rawRequest("GET", "/v1/jobs", ""), "\r\n", "\n"), 200},
		"no request":          {"hello\r\n", 400},
		"an empty line first": {"\r\n" + rawRequest("POST", "/v1/jobs", echo), 429},
	} {
		t.Run(name, func(t *testing.T) {
			withAndWithout(t, func(t *testing.T, h *refusing) {
				h.refused()
				began := time.Now()
				h.send(c.text)
				if h.answered(c.status); time.Since(began) > time.Second {
					t.Errorf("the answer takes %s", time.Since(began))
				}
			})
		})
	}
}

func TestAPanicLeavesNoCallerWaiting(t *testing.T) {
	withAndWithout(t, func(t *testing.T, h *refusing) {
		h.panics = 2
		h.refused()
		h.send(rawRequest("POST", "/v1/jobs", echo))
		_ = h.conn.SetReadDeadline(time.Now().Add(time.Hour))
		began := time.Now()
		if _, _ = io.ReadAll(io.LimitReader(h.in, 12)); time.Since(began) > time.Minute {
			t.Errorf("the caller waits for %s", time.Since(began))
		}
	})
}

func TestAServerThatStopsAnswersRequestsInProgress(t *testing.T) {
	withAndWithout(t, func(t *testing.T, h *refusing) {
		h.refused()
		r := rawRequest("POST", "/v1/jobs", echo)
		h.send(r[:len(r)-len(echo)])
		synctest.Wait() // the server waits for the body
		answered := make(chan struct{})
		go func() {
			defer close(answered)
			time.Sleep(100 * time.Millisecond)
			h.send(echo)
			h.answered(429)
		}()
		if err := h.server.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if err := h.refuser.Wait(t.Context()); err != nil {
			t.Error(err)
		}
		<-answered
	})
}
