package wire

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strconv"
	"unicode/utf8"

	"github.com/carillon-run/carillon"
)

// scan reads JSON piece by piece, in exactly the form in which this package writes it: no blanks, fields in
// the order of their type, texts without escapes. bad means that it met anything else, even if that is valid
// JSON: the caller then uses a decoder, which knows how to explain faults.
type scan struct {
	rest []byte
	bad  bool
}

// has passes over the literal if it comes next.
func (s *scan) has(literal string) bool {
	if len(s.rest) < len(literal) || string(s.rest[:len(literal)]) != literal {
		return false
	}
	s.rest = s.rest[len(literal):]
	return true
}

func (s *scan) must(literal string) { s.bad = !s.has(literal) || s.bad }

// list calls item for each item of a list, behind the opening bracket, and passes over the closing one.
func (s *scan) list(item func()) {
	for first := true; !s.bad && (first || s.has(`,`)); first = false {
		item()
	}
	s.must(`]`)
}

// raw reads up to the closing quote. Its result is a part of the body.
func (s *scan) raw() []byte {
	ascii := true
	for i, c := range s.rest {
		switch {
		case c == '"':
			text := s.rest[:i]
			s.bad = s.bad || !ascii && !utf8.Valid(text)
			s.rest = s.rest[i+1:]
			return text
		case c < ' ' || c == '\\':
			s.bad = true
			return nil
		}
		ascii = ascii && c < utf8.RuneSelf
	}
	s.bad = true
	return nil
}

func (s *scan) text() string { return string(s.raw()) }

// textLike is text, but returns like if the two are equal, to share its memory.
func (s *scan) textLike(like string) string {
	if text := s.raw(); string(text) != like {
		return string(text)
	}
	return like
}

func (s *scan) time() carillon.Time {
	t, err := carillon.ParseTime(s.text())
	s.bad = s.bad || err != nil
	return t
}

func (s *scan) duration() carillon.Duration {
	d, err := carillon.ParseDuration(s.text())
	s.bad = s.bad || err != nil
	return d
}

// fence reads a number that is written as text.
func (s *scan) fence() int64 {
	text := s.raw()
	n, err := strconv.ParseInt(string(text), 10, 64)
	s.bad = s.bad || err != nil || text[0] < '0' || text[0] > '9'
	return n
}

// number reads an integer from 0 to most, without zeros in front.
func (s *scan) number(most int) (n int) {
	i := 0
	for i < len(s.rest) && i < 9 && s.rest[i] >= '0' && s.rest[i] <= '9' {
		n = 10*n + int(s.rest[i]-'0')
		i++
	}
	s.bad = s.bad || i == 0 || i > 1 && s.rest[0] == '0' || n > most
	s.rest = s.rest[i:]
	return n
}

// value takes an object or a list as it is, and returns nil for null. The writer has checked the JSON, so the
// brackets alone say where the value ends.
func (s *scan) value() []byte {
	if s.has(`null`) {
		return nil
	}
	depth, quoted := 0, false
	for i := 0; i < len(s.rest); i++ {
		switch c := s.rest[i]; {
		case quoted && c == '\\':
			i++
		case c == '"' && depth > 0:
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			depth--
			if depth == 0 {
				value := bytes.Clone(s.rest[:i+1]) // a long run must not keep the whole answer
				s.rest = s.rest[i+1:]
				return value
			}
		case depth == 0: // a text, a number or a word: rare
			s.bad = true
			return nil
		}
	}
	s.bad = true
	return nil
}

// any reads an object or a list with encoding/json.
func (s *scan) any(into any) {
	s.bad = s.bad || json.Unmarshal(s.value(), into) != nil
}

// appendText writes a text. Unlike encoding/json it leaves < > & as they are.
func appendText(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			return appendAny(b, s)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}

func appendAny(b []byte, v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // made of text, numbers, lists and maps of text only
	}
	return append(b, text...)
}

func appendRaw(b, raw []byte) []byte {
	if len(raw) == 0 {
		return append(b, "null"...)
	}
	return append(b, raw...)
}

// appendTime writes a field with a time, if there is one; name is the text before its value.
func appendTime(b []byte, name string, t carillon.Time) []byte {
	if t == 0 {
		return b
	}
	return append(append(append(append(b, name...), '"'), t.String()...), '"')
}

// appendBytes writes a field in base64, if there is something to write.
func appendBytes(b []byte, name string, value []byte) []byte {
	if len(value) == 0 {
		return b
	}
	b = append(append(b, name...), '"')
	return append(base64.StdEncoding.AppendEncode(b, value), '"')
}
