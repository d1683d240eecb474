package jobjson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/carillon-run/carillon"
)

// lexer splits JSON into tokens. On the way it checks everything that must hold of JSON and of the text in
// it, so a body without a fault is read once.
type lexer struct {
	body []byte
	at   int
	// unchecked says that whole went past a value: the text in that value was not checked.
	unchecked bool
}

// errNotJSON is for the decoder alone. Where the fault is, and in which words, is for checkText and
// checkSyntax to say.
var errNotJSON = fmt.Errorf("%w: not JSON", carillon.ErrInvalid)

// next is the first byte of the next token, 0 at the end.
func (l *lexer) next() byte {
	for ; l.at < len(l.body); l.at++ {
		switch c := l.body[l.at]; c {
		case ' ', '\t', '\n', '\r':
		default:
			return c
		}
	}
	return 0
}

// end checks that nothing follows.
func (l *lexer) end() error {
	if l.next(); l.at < len(l.body) {
		return errNotJSON
	}
	return nil
}

// token returns the same token as a json.Decoder with UseNumber. Where a value begins that is an opening
// bracket, or all of a text, a number or a word.
func (l *lexer) token() (json.Token, error) {
	c := l.next()
	if c == '{' || c == '[' {
		l.at++
		return json.Delim(c), nil
	}
	text, err := l.plain()
	if err != nil {
		return nil, err
	}
	switch c {
	case '"':
		return string(unquoted(text)), nil
	case 'n':
		return nil, nil
	case 't', 'f':
		return c == 't', nil
	}
	return json.Number(text), nil
}

// more goes to the next item of a list, or to the next field of an object; false: it went past the closing
// bracket.
func (l *lexer) more(first bool, closing byte) (bool, error) {
	switch c := l.next(); {
	case c == closing:
		l.at++
		return false, nil
	case first:
		return true, nil
	case c == ',':
		l.at++
		return true, nil
	}
	return false, errNotJSON
}

// name reads the name of a field, and goes to its value.
func (l *lexer) name() ([]byte, error) {
	if l.next() != '"' {
		return nil, errNotJSON
	}
	text, err := l.plain()
	if err != nil || l.next() != ':' {
		return nil, errNotJSON
	}
	l.at++
	return unquoted(text), nil
}

func unquoted(text []byte) []byte {
	if bytes.IndexByte(text, '\\') < 0 {
		return text[1 : len(text)-1]
	}
	var s string
	_ = json.Unmarshal(text, &s) // it is valid
	return []byte(s)
}

// plain reads a text, a number or a word, and returns it as it is written.
func (l *lexer) plain() ([]byte, error) {
	c := l.next()
	rest, n := l.body[l.at:], 0
	switch c {
	case '"':
		n = textLength(rest)
	case 'n':
		n = wordLength(rest, "null")
	case 't':
		n = wordLength(rest, "true")
	case 'f':
		n = wordLength(rest, "false")
	default:
		n = numberLength(rest)
	}
	if n == 0 {
		return nil, errNotJSON
	}
	l.at += n
	return rest[:n], nil
}

// whole reads any value, and returns a copy of it as it is written. It is slow, and it is for values that the
// decoder refuses anyway. It does not check the text in the value, and counts levels from the value on.
func (l *lexer) whole() (value json.RawMessage, err error) {
	l.next()
	if json.NewDecoder(bytes.NewReader(l.body[l.at:])).Decode(&value) != nil {
		return nil, errNotJSON
	}
	l.at += len(value)
	l.unchecked = true
	return value, nil
}

// The lengths below are 0 where b does not begin with what they measure.

func wordLength(b []byte, word string) int {
	if !bytes.HasPrefix(b, []byte(word)) {
		return 0
	}
	return len(word)
}

// numberLength takes as many bytes as make a number. A digit behind a leading zero is not among them.
func numberLength(b []byte) int {
	i := 0
	if i < len(b) && b[i] == '-' {
		i++
	}
	whole := digits(b[i:])
	if whole == 0 {
		return 0
	}
	if b[i] == '0' {
		whole = 1
	}
	i += whole
	if i < len(b) && b[i] == '.' {
		fraction := digits(b[i+1:])
		if fraction == 0 {
			return 0
		}
		i += 1 + fraction
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		exponent := digits(b[i:])
		if exponent == 0 {
			return 0
		}
		i += exponent
	}
	return i
}

func digits(b []byte) (n int) {
	for n < len(b) && '0' <= b[n] && b[n] <= '9' {
		n++
	}
	return n
}

// textLength measures a text with its quotes.
func textLength(b []byte) int {
	for i := 1; i < len(b); {
		switch c := b[i]; {
		case c == '"':
			return i + 1
		case c == '\\':
			n := escapeLength(b[i:])
			if n == 0 {
				return 0
			}
			i += n
		case c < ' ':
			return 0
		case c < utf8.RuneSelf:
			i++
		default:
			_, n := utf8.DecodeRune(b[i:])
			if n == 1 { // not UTF-8
				return 0
			}
			i += n
		}
	}
	return 0
}

// escapeLength measures an escape. Both halves of a surrogate pair are one escape.
func escapeLength(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	if strings.IndexByte(`"\/bfnrt`, b[1]) >= 0 {
		return 2
	}
	switch r := codeUnit(b[1:]); {
	case r < 0:
		return 0
	case !utf16.IsSurrogate(r):
		return len(`\u0000`)
	case len(b) > 7 && b[6] == '\\' && utf16.DecodeRune(r, codeUnit(b[7:])) != utf8.RuneError:
		return len(`\ud83d\ude00`)
	}
	return 0
}

// codeUnit returns the code unit that uXXXX stands for, or -1 if b does not begin with that form.
func codeUnit(b []byte) rune {
	if len(b) < 5 || b[0] != 'u' {
		return -1
	}
	var r rune
	for _, c := range b[1:5] {
		r <<= 4
		switch {
		case '0' <= c && c <= '9':
			r |= rune(c - '0')
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			r |= rune(c|0x20-'a') + 10
		default:
			return -1
		}
	}
	return r
}
