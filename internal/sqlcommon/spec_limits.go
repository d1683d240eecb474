package sqlcommon

import (
	"bytes"

	"github.com/carillon-run/carillon"
)

// onlyLimits reads a spec that has nothing but limits, as Encode writes it. Every run of a job with a limit
// needs its definition, and encoding/json takes about eight times as long. Whatever is not plain is left to
// encoding/json, so this code need not know all of JSON: false says that it is.
func onlyLimits(b []byte) (limits []carillon.Limit, ok bool) {
	s := scan{rest: b}
	if !s.next(`{"limits":[`) {
		return nil, false
	}
	limits = make([]carillon.Limit, 0, 1)
	for more := true; more; more = s.next(",") {
		l, ok := s.limit()
		if !ok {
			return nil, false
		}
		limits = append(limits, l)
	}
	return limits, s.next(`]}`) && len(s.rest) == 0
}

// scan reads JSON from its beginning.
type scan struct{ rest []byte }

// limit reads the fields in the order in which encoding/json writes them.
func (s *scan) limit() (l carillon.Limit, ok bool) {
	if !s.next(`{"key":"`) {
		return l, false
	}
	key, ok := s.text()
	l.Key = string(key)
	if ok && s.next(`,"concurrency":`) {
		l.Concurrency, ok = s.number()
	}
	if ok && s.next(`,"rate":"`) {
		var rate []byte
		if rate, ok = s.text(); ok {
			var err error
			l.Rate, err = carillon.ParseRate(string(rate))
			ok = err == nil
		}
	}
	if ok && s.next(`,"burst":`) {
		l.Burst, ok = s.number()
	}
	if ok && s.next(`,"weight":`) {
		l.Weight, ok = s.number()
	}
	return l, ok && s.next("}")
}

// next goes behind the text if it comes next.
func (s *scan) next(text string) bool {
	if len(s.rest) < len(text) || string(s.rest[:len(text)]) != text {
		return false
	}
	s.rest = s.rest[len(text):]
	return true
}

// text reads up to the closing quote. Only printable ASCII without escapes is plain.
func (s *scan) text() (text []byte, ok bool) {
	end := bytes.IndexByte(s.rest, '"')
	if end < 0 {
		return nil, false
	}
	text, s.rest = s.rest[:end], s.rest[end+1:]
	for _, c := range text {
		if c < ' ' || c > '~' || c == '\\' {
			return nil, false
		}
	}
	return text, true
}

// number reads up to nine digits: limits have no larger numbers.
func (s *scan) number() (n int, ok bool) {
	digits := 0
	for digits < len(s.rest) && s.rest[digits] >= '0' && s.rest[digits] <= '9' && digits < 10 {
		n = 10*n + int(s.rest[digits]-'0')
		digits++
	}
	plain := digits > 0 && digits < 10 && (digits == 1 || s.rest[0] != '0') // JSON has no leading zeros
	s.rest = s.rest[digits:]
	return n, plain
}
