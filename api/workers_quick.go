package api

import (
	"bytes"

	"github.com/carillon-run/carillon"
)

// quickReports reads reports in exactly the form in which Carillon's own worker writes the common ones: these
// fields, in this order, without blanks or escapes. It is six times as fast as decode, and accepts nothing
// that decode would refuse. For any other form, even a valid one, ok is false: decode reads it, and knows how
// to explain its faults.
func quickReports(body []byte) (all []report, ok bool) {
	s := scan{rest: body}
	s.must(`{"reports":[`)
	all = make([]report, 0, bytes.Count(body, []byte(`{"run":"`)))
	for first := true; !s.bad && (first || s.has(`,`)); first = false {
		all = append(all, s.report())
	}
	s.must(`]}`)
	return all, !s.bad && len(s.rest) == 0
}

func (s *scan) report() (r report) {
	s.must(`{"run":"`)
	r.Run = s.text()
	s.must(`,"fence":"`)
	r.Fence = s.text()
	s.must(`,"token":"`)
	r.Token = s.text()
	if s.has(`,"begun_at":"`) {
		r.Begun = s.time()
	}
	if s.has(`,"end":{"outcome":"`) {
		r.End = &reportEnd{Outcome: s.text()}
		if s.has(`,"reason":"`) {
			r.End.Reason = s.text()
		}
		if s.has(`,"started_at":"`) {
			r.End.Started = s.time()
		}
		s.must(`}`)
	}
	s.must(`}`)
	return r
}

// scan reads a body piece by piece. bad means that it met something that it did not expect.
type scan struct {
	rest []byte
	bad  bool
}

func (s *scan) has(literal string) bool {
	if len(s.rest) < len(literal) || string(s.rest[:len(literal)]) != literal {
		return false
	}
	s.rest = s.rest[len(literal):]
	return true
}

func (s *scan) must(literal string) { s.bad = !s.has(literal) || s.bad }

// text reads up to the closing quote.
func (s *scan) text() string {
	for i, c := range s.rest {
		switch {
		case c == '"':
			text := string(s.rest[:i])
			s.rest = s.rest[i+1:]
			return text
		case c < ' ' || c == '\\' || c > '~':
			s.bad = true
			return ""
		}
	}
	s.bad = true
	return ""
}

func (s *scan) time() carillon.Time {
	t, err := carillon.ParseTime(s.text())
	s.bad = s.bad || err != nil
	return t
}
