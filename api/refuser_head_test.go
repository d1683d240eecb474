package api_test

import (
	"bufio"
	"net/http"
	"strings"
	"testing"

	"github.com/carillon-run/carillon/api"
)

// What the Refuser takes for a plain submit, net/http reads as the same request. Where the two disagree about
// the length of a body, a caller could smuggle a request past a proxy.
func FuzzThePlainSubmit(f *testing.F) {
	for _, head := range []string{
		rawRequest("POST", "/v1/jobs", ""), rawRequest("POST", "/v1/jobs/batch", ""),
		rawRequest("POST", "/v1/jobs", "", "Connection: Keep-Alive", "X-Note: a:b"),
		"POST /v1/jobs HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n",
		"POST /v1/jobs HTTP/1.1\r\nHost: a\r\ncontent-length:\t05 \r\n\r\n",
		"POST /v1/jobs HTTP/1.1\r\nHost: a\r\nContent-Length: +5\r\n\r\n",
		"POST /v1/jobs HTTP/1.1\r\nHost: a\r\nContent-Length : 5\r\n\r\n",
		"POST /v1/jobs HTTP/1.1\r\nHost: a\r\n Content-Length: 5\r\nContent-Length: 6\r\n\r\n",
		"POST /v1/jobs HTTP/1.1\r\nHost: a\nContent-Length: 7\r\nContent-Length: 5\r\n\r\n",
		"POST /v1/jobs HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
		"POST /v1/jobs HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding : chunked\r\n\r\n",
		"POST /v1/jobs HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nConnection: close\r\n\r\n",
		"POST /v1/jobs HTTP/1.1\r\nHost: a\r\nHost: b\r\nContent-Length: 5\r\n\r\n",
		"POST /v1/jobs HTTP/1.1\r\nHost: a\r\nContent-Length: 99999\r\n\r\n",
		"POST /v1/jobs HTTP/1.0\r\nHost: a\r\nContent-Length: 5\r\n\r\n",
		"GET /v1/jobs HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n",
	} {
		f.Add(head)
	}
	f.Fuzz(func(t *testing.T, head string) {
		if i := strings.Index(head, "\r\n\r\n"); i >= 0 {
			head = head[:i+4] // as the Refuser cuts it
		}
		batch, length, ok := api.PlainSubmit([]byte(head))
		if !ok {
			return
		}
		in := bufio.NewReader(strings.NewReader(head))
		r, err := http.ReadRequest(in)
		if in.Buffered() > 0 {
			t.Fatalf("net/http ends the head of %q before %d bytes", head, in.Buffered())
		}
		if err != nil {
			t.Fatalf("net/http refuses %q: %v", head, err)
		}
		path := "/v1/jobs"
		if batch {
			path += "/batch"
		}
		if r.Method != "POST" || r.RequestURI != path || !r.ProtoAtLeast(1, 1) ||
			r.ContentLength != length || len(r.TransferEncoding) > 0 || r.Close ||
			len(r.Trailer) > 0 || r.Header.Get("Expect") != "" || r.Header.Get("Upgrade") != "" {
			t.Errorf("%q is read as batch %t of %d bytes, by net/http as %s %s %d %v", head, batch, length,
				r.Method, r.RequestURI, r.ContentLength, r.TransferEncoding)
		}
	})
}

func TestHeadsOfPlainSubmits(t *testing.T) {
	const start = "POST /v1/jobs HTTP/1.1\r\nHost: a\r\n"
	for head, want := range map[string]bool{
		rawRequest("POST", "/v1/jobs", ""):                                 true,
		rawRequest("POST", "/v1/jobs/batch", "", "Idempotency-Key: a"):     true,
		rawRequest("POST", "/v1/jobs", "", "Connection: Keep-Alive"):       true,
		start + "content-length:\t05 \r\n\r\n":                             true,
		start + "\r\n":                                                     false,
		start + "Content-Length: 5\r\nContent-Length: 5\r\n\r\n":           false,
		start + "Content-Length: +5\r\n\r\n":                               false,
		start + "Content-Length: 65537\r\n\r\n":                            false,
		start + "Content-Length : 5\r\n\r\n":                               false,
		start + "Content-Length: 5\r\n X: a\r\n\r\n":                       false,
		start + "Content-Length: 5\r\nX: a\nY: b\r\n\r\n":                  false,
		start + "Content-Length: 5\r\nHost: b\r\n\r\n":                     false,
		start + "Content-Length: 5\r\nconnection: close\r\n\r\n":           false,
		start + "Content-Length: 5\r\nTransfer-Encoding: a\r\n\r\n":        false,
		start + "Content-Length: 5\r\nexpect: 100-continue\r\n\r\n":        false,
		start + "Content-Length: 5\r\nOrigin: http://a\r\n\r\n":            false,
		"POST /v1/jobs?a HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n": false,
		"POST /v1/jobs HTTP/1.0\r\nHost: a\r\nContent-Length: 0\r\n\r\n":   false,
		"POST /v1/jobs HTTP/1.1\r\nContent-Length: 0\r\n\r\n":              false,
		"GET /v1/jobs HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n":    false,
	} {
		if _, _, got := api.PlainSubmit([]byte(head)); got != want {
			t.Errorf("%q: %t, want %t", head, got, want)
		}
	}
}
