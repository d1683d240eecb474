package main

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// safeTerminal is a terminal that only shows text. All output of the command line goes through it, so that
// neither the output of a job nor an answer of a server can move the cursor, set the title or make the
// terminal type something: it shows control characters as escapes. It lets line feeds and tabs through, and
// colours (ESC [ … m) only where they are wanted. If a sequence is split over two writes, it is escaped.
type safeTerminal struct {
	w       io.Writer
	colours func() bool
}

func (s *safeTerminal) Write(b []byte) (int, error) {
	if _, err := io.WriteString(s.w, onScreen(string(b), s.colours())); err != nil {
		return 0, err
	}
	return len(b), nil
}

func onScreen(s string, colours bool) string {
	var b strings.Builder
	done := 0 // how many bytes of s are in b
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		shown := ""
		switch {
		case r == utf8.RuneError && size == 1:
			shown = fmt.Sprintf(`\x%02x`, s[i])
		case r == 0x1b && colourAt(s[i:]) > 0:
			size = colourAt(s[i:])
			if colours {
				shown = s[i : i+size]
			}
		case r == '\r':
			shown = `\r`
		case r < ' ' && r != '\n' && r != '\t', r == 0x7f:
			shown = fmt.Sprintf(`\x%02x`, r)
		case isC1(r):
			shown = fmt.Sprintf(`\u%04x`, r)
		default:
			i += size
			continue
		}
		b.WriteString(s[done:i])
		b.WriteString(shown)
		i += size
		done = i
	}
	if done == 0 {
		return s
	}
	b.WriteString(s[done:])
	return b.String()
}

// isC1 says that a terminal can take the character for the beginning of a control sequence, as it does with
// ESC.
func isC1(r rune) bool { return 0x80 <= r && r <= 0x9f }

// colourAt is the length of the sequence for a colour or style with which s begins, or 0.
func colourAt(s string) int {
	const longest = 40
	if !strings.HasPrefix(s, "\x1b[") {
		return 0
	}
	for i := 2; i < len(s) && i < longest; i++ {
		switch c := s[i]; {
		case c == 'm':
			return i + 1
		case c != ';' && c != ':' && (c < '0' || c > '9'):
			return 0
		}
	}
	return 0
}

// endColours ends the colours that a line of a job began, so that they do not go on in the next line.
func endColours(line string) string {
	if strings.Contains(line, "\x1b[") {
		return line + "\x1b[0m"
	}
	return line
}
