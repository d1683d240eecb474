package api_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// If the answer does not depend on the body, the server answers a caller that announces a body before the
// body comes. Otherwise every caller could hold connections open, and a person would wait a minute to learn
// that the token is wrong.
func TestARefusalDoesNotWaitForTheBody(t *testing.T) {
	h := newHouse(t, nil)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: h}
	stopped := make(chan error)
	go func() { stopped <- server.Serve(listener) }()
	t.Cleanup(func() { server.Close(); <-stopped })

	const bearer, json = "Authorization: Bearer " + token + "\r\n", "Content-Type: application/json\r\n"
	for name, c := range map[string]struct {
		request string
		status  int
		body    string
	}{
		"without a token": {
			"POST /v1/jobs HTTP/1.1\r\nContent-Length: 100\r\n" + json, 401, "unauthorized",
		},
		"a large one, no token": {
			"POST /v1/jobs HTTP/1.1\r\nContent-Length: 1000000000\r\n" + json, 401, "unauthorized",
		},
		"in pieces, no token": {
			"POST /v1/jobs HTTP/1.1\r\nTransfer-Encoding: chunked\r\n" + json, 401, "unauthorized",
		},
		"over the limit": {
			"POST /v1/jobs HTTP/1.1\r\nContent-Length: 9437185\r\n" + bearer + json, 413, "too-large",
		},
		"over the limit of a batch": {
			"POST /v1/jobs/batch HTTP/1.1\r\nContent-Length: 16777217\r\n" + bearer + json, 413, "too-large",
		},
		"where none is wanted": {
			"GET /v1/jobs HTTP/1.1\r\nContent-Length: 1048577\r\n" + bearer + json, 413, "too-large",
		},
		"of another type": {
			"POST /v1/jobs HTTP/1.1\r\nContent-Length: 100\r\nContent-Type: text/plain\r\n" + bearer, 415,
			"unsupported-media-type",
		},
		"to a path that is not here": {
			"POST /v1/bells HTTP/1.1\r\nContent-Length: 100\r\n" + bearer + json, 404, "not-found",
		},
		"with an unknown parameter": {
			"POST /v1/jobs?x=1 HTTP/1.1\r\nContent-Length: 100\r\n" + bearer + json, 400, "invalid",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, err := net.Dial("tcp", listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			// The server has no time limits: without this deadline the test could wait for ever.
			_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
			if _, err := io.WriteString(conn, c.request+"Host: carillon\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			r := bufio.NewReader(conn)
			answer, err := http.ReadResponse(r, nil)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(answer.Body)
			if err != nil || answer.StatusCode != c.status ||
				!strings.Contains(string(body), "urn:carillon:problem:"+c.body) {
				t.Errorf("%d %s, %v", answer.StatusCode, body, err)
			}
			if _, err := r.ReadByte(); err != io.EOF {
				t.Errorf("the connection is not closed: %v", err)
			}
		})
	}
}

// If the server closes a connection while the body comes, the connection is reset, and the reset takes the
// answer away from a caller that has not read it yet. So the server reads on for a moment.
func TestARefusedBodyThatComesIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, nil)
		conn, err := h.serve(0).Transport.(*http.Transport).DialContext(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		const size = 200_000
		if _, err := fmt.Fprintf(
			conn, "POST /v1/jobs HTTP/1.1\r\nHost: carillon\r\nContent-Length: %d\r\n\r\n", size,
		); err != nil {
			t.Fatal(err)
		}
		r := bufio.NewReader(conn)
		answer, err := http.ReadResponse(r, nil)
		if err != nil || answer.StatusCode != 401 {
			t.Fatalf("%v, %v", answer, err)
		}
		if _, err := io.Copy(io.Discard, answer.Body); err != nil {
			t.Error(err)
		}
		time.Sleep(200 * time.Millisecond) // the body is on its way
		if n, err := conn.Write(make([]byte, size)); err != nil {
			t.Errorf("the server has taken %d of %d bytes: %v", n, size, err)
		}
		if _, err := r.ReadByte(); err != io.EOF {
			t.Errorf("the connection is not closed: %v", err)
		}
	})
}

func TestARefusalAfterTheBodyKeepsTheConnection(t *testing.T) {
	h := newHouse(t, nil)
	client := h.serve(0)
	for range 2 {
		r, _ := http.NewRequest("POST", "http://carillon/v1/jobs", strings.NewReader(`{"name": 7}`))
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("Content-Type", "application/json")
		answer, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != 400 || answer.Close {
			t.Errorf("%s, the connection closes: %t", answer.Status, answer.Close)
		}
	}
}
