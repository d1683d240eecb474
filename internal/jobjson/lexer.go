package jobjson

import (
	"bytes"
	"encoding/json"
)

// lexer splits one JSON value into tokens. The value is known to be valid, so the lexer does not check what
// comes between tokens, and it cannot fail.
type lexer struct {
	body []byte
	at   int
}

// next is the first byte of the next token, 0 at the end.
func (l *lexer) next() byte {
	for ; l.at < len(l.body); l.at++ {
		switch c := l.body[l.at]; c {
		case ' ', '\t', '\n', '\r', ',', ':':
		default:
			return c
		}
	}
	return 0
}

// token returns the same token as a json.Decoder with UseNumber. It returns nil for null, and at the end.
func (l *lexer) token() json.Token {
	c := l.next()
	start := l.at
	switch c {
	case 0:
		return nil
	case '{', '}', '[', ']':
		l.at++
		return json.Delim(c)
	case '"':
		return unquoted(l.body[start:l.skip()])
	}
	switch text := string(l.body[start:l.skip()]); text {
	case "null":
		return nil
	case "true":
		return true
	case "false":
		return false
	default:
		return json.Number(text)
	}
}

func unquoted(text []byte) (s string) {
	if bytes.IndexByte(text, '\\') < 0 {
		return string(text[1 : len(text)-1])
	}
	_ = json.Unmarshal(text, &s) // it is valid
	return s
}

func (l *lexer) more() bool {
	c := l.next()
	return c != 0 && c != '}' && c != ']'
}

// raw is the next value as it is written.
func (l *lexer) raw() json.RawMessage {
	l.next()
	start := l.at
	return bytes.Clone(l.body[start:l.skip()])
}

// skip goes past the value that begins here, and returns the position behind it.
func (l *lexer) skip() (end int) {
	for depth := 0; ; {
		switch c := l.body[l.at]; c {
		case '"':
			l.skipText()
		case '{', '[':
			depth++
			l.at++
		case '}', ']':
			depth--
			l.at++
		default:
			l.skipWord()
		}
		if depth == 0 {
			return l.at
		}
		l.next()
	}
}

func (l *lexer) skipText() {
	for l.at++; l.body[l.at] != '"'; l.at++ {
		if l.body[l.at] == '\\' {
			l.at++
		}
	}
	l.at++
}

// skipWord goes past a number or one of null, true and false.
func (l *lexer) skipWord() {
	for ; l.at < len(l.body); l.at++ {
		switch l.body[l.at] {
		case ' ', '\t', '\n', '\r', ',', ':', '}', ']':
			return
		}
	}
}
