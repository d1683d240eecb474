package api

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/carillon-run/carillon/internal/wire"
)

// plainRequest is a submit that the Refuser can refuse.
type plainRequest struct {
	batch  bool
	length int64 // of the body
}

// plainSubmit reads the head of a request, with the empty line behind it. ok says that it is a submit whose
// body the Refuser can skip. Where the head is unusual in any way, ok is false, and net/http reads the
// request: two programs that disagree about where a request ends would let a caller smuggle one.
func plainSubmit(head []byte) (r plainRequest, ok bool) {
	line, rest, _ := bytes.Cut(head, []byte("\r\n"))
	switch string(line) {
	case "POST /v1/jobs HTTP/1.1":
	case "POST /v1/jobs/batch HTTP/1.1":
		r.batch = true
	default:
		return r, false
	}
	hosts, lengths := 0, 0
	for {
		if line, rest, ok = bytes.Cut(rest, []byte("\r\n")); !ok {
			return r, false
		}
		if len(line) == 0 {
			break
		}
		name, value, ok := bytes.Cut(line, []byte(":"))
		if !ok || !isPlainName(name) || !isPrintable(value) {
			return r, false
		}
		value = bytes.Trim(value, " \t")
		switch {
		case named(name, "Host"):
			hosts++
		case named(name, "Content-Length"):
			if r.length, ok = smallLength(value); !ok {
				return r, false
			}
			lengths++
		case named(name, "Connection"):
			if !bytes.EqualFold(value, []byte("keep-alive")) {
				return r, false
			}
		case slices.ContainsFunc(unusual, func(other string) bool { return named(name, other) }):
			return r, false
		}
	}
	return r, len(rest) == 0 && hosts == 1 && lengths == 1
}

// unusual are headers that change how a request is read or answered, or that only browsers send.
var unusual = []string{
	"Transfer-Encoding", "Trailer", "Te", "Upgrade", "Expect", "Proxy-Connection", "Keep-Alive",
	"Origin", "Sec-Fetch-Site",
}

func named(name []byte, header string) bool {
	return len(name) == len(header) && bytes.EqualFold(name, []byte(header))
}

// isPlainName says that the name of a header has only letters, digits and hyphens.
func isPlainName(name []byte) bool {
	for _, c := range name {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-') {
			return false
		}
	}
	return len(name) > 0
}

func isPrintable(value []byte) bool {
	for _, c := range value {
		if c != '\t' && (c < ' ' || c > '~') {
			return false
		}
	}
	return true
}

// smallLength reads the length of a body that is not large.
func smallLength(digits []byte) (n int64, ok bool) {
	if len(digits) == 0 || len(digits) > 5 {
		return 0, false
	}
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + int64(c-'0')
	}
	return n, n <= largeBody
}

// refusalHeads are the heads of the answers to refused requests, like refusals, up to the value of the date.
var refusalHeads = func() (list [len(refusals)][]byte) {
	for i, p := range refusals {
		head := fmt.Appendf(nil, "HTTP/1.1 %d %s\r\n", p.Status, http.StatusText(p.Status))
		header := maps.Clone(always)
		header.Set("Content-Type", problemType)
		header.Set("Content-Length", strconv.Itoa(len(p.text)))
		header.Set("Retry-After", retrySeconds(p.RetryAfter))
		for _, name := range slices.Sorted(maps.Keys(header)) {
			head = fmt.Appendf(head, "%s: %s\r\n", name, header.Get(name))
		}
		list[i] = append(head, "Date: "...)
	}
	return list
}()

// appendRefusal appends the answer to a refused request, as net/http would write it.
func appendRefusal(b []byte, after time.Duration, keep bool, now time.Time) []byte {
	i := after / time.Second
	b = now.UTC().AppendFormat(append(b, refusalHeads[i]...), http.TimeFormat)
	b = append(b, "\r\n"+wire.RequestHeader+": "...)
	id := requestBytes()
	b = hex.AppendEncode(b, id[:])
	if !keep {
		b = append(b, "\r\nConnection: close"...)
	}
	b = append(b, endOfHead...)
	return append(b, refusals[i].text...)
}

// plainRead says whether a request that net/http has read is one that the Refuser could have read. Where the
// Refuser would give back every request of a caller, it must not take the connection: a connection that
// changes hands costs more than an answer of net/http.
func plainRead(r *http.Request) bool {
	return r.Proto == "HTTP/1.1" && (r.RequestURI == "/v1/jobs" || r.RequestURI == "/v1/jobs/batch") &&
		!slices.ContainsFunc(unusual, func(name string) bool { return r.Header[name] != nil })
}
