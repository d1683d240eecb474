package carillon

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Fingerprint names a group of errors that differ only in their details. Stores keep the fingerprint of each
// dead letter, and people find letters by it. Its text form has 16 hexadecimal digits. Zero means none.
type Fingerprint uint64

const (
	maxFingerprintText  = 200  // characters
	maxFingerprintInput = 4096 // bytes of a reason that are read
)

// FingerprintOf returns the fingerprint of a reason, and the text that all reasons of its group have in
// common: "dial tcp 10.0.0.7:5432: connect: connection refused" gives "dial tcp #:#: connect: connection
// refused". Numbers, hexadecimal numbers and ids become #, quoted text becomes '…', paths become /…, and URLs
// keep only their scheme.
//
// Stores keep fingerprints for months. A change of these rules splits the groups that exist, unless a
// migration removes the fingerprints: stores fill in those that are missing.
func FingerprintOf(reason string) (f Fingerprint, text string) {
	// Some stores keep U+FFFD for what is no text: a reason has the same fingerprint before and after.
	reason = plainQuotes.Replace(strings.ToValidUTF8(reason, "\uFFFD"))
	if len(reason) > maxFingerprintInput {
		reason = strings.ToValidUTF8(reason[:maxFingerprintInput], "")
	}
	s := errorScan{in: reason, out: make([]byte, 0, min(len(reason), 4*maxFingerprintText))}
	for s.at < len(s.in) && s.runes < maxFingerprintText {
		s.step()
	}
	text = strings.TrimRight(s.text(), " ")
	return hashError(text), text
}

var plainQuotes = strings.NewReplacer(
	"‘", "'", "’", "'", "“", `"`, "”", `"`, "\u00a0", " ", "\uFFFD", " ",
)

// hashError is FNV-1a, whose bits a last step mixes.
func hashError(text string) Fingerprint {
	h := uint64(14695981039346656037)
	for i := range len(text) {
		h = (h ^ uint64(text[i])) * 1099511628211
	}
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	return Fingerprint(max(h, 1))
}

func (f Fingerprint) String() string { return fmt.Sprintf("%016x", uint64(f)) }

func (f Fingerprint) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

func (f *Fingerprint) UnmarshalText(b []byte) (err error) {
	*f, err = ParseFingerprint(string(b))
	return err
}

// ParseFingerprint reads the text form.
func ParseFingerprint(s string) (Fingerprint, error) {
	n, err := strconv.ParseUint(s, 16, 64)
	if err != nil || len(s) != 16 || n == 0 || s != Fingerprint(n).String() {
		return 0, invalid("fingerprint", s, "the fingerprint of a group of errors: 16 digits of 0-9 a-f")
	}
	return Fingerprint(n), nil
}

// errorScan goes once through a reason and writes what its group has in common.
type errorScan struct {
	in    string
	at    int
	out   []byte
	runes int // of out
}

// step reads one thing and writes what stands for it.
func (s *errorScan) step() {
	c := s.in[s.at]
	switch {
	case c <= ' ' || c == 0x7f:
		s.at++
		if len(s.out) > 0 && s.out[len(s.out)-1] != ' ' {
			s.put(" ")
		}
	case c == '\'' || c == '"' || c == '`':
		s.quoted(c)
	case s.pathHere() > 0:
		s.put("/…")
		s.at += s.pathHere()
	case isWord(c):
		s.word()
	case c == '-' && !s.behindWord() && s.next(1, isDigit): // a sign
		s.at++
	default:
		s.put(s.in[s.at : s.at+1])
		s.at++
	}
}

// quoted writes '…' for a quoted text. An apostrophe, and a quote that nothing closes, stay.
func (s *errorScan) quoted(quote byte) {
	if !s.behindWord() {
		for i := s.at + 1; i < len(s.in); i++ {
			switch {
			case s.in[i] == '\\' && quote == '"':
				i++
			case s.in[i] == quote && (quote != '\'' || i+1 == len(s.in) || !isWord(s.in[i+1])):
				s.put(string(quote) + "…" + string(quote))
				s.at = i + 1
				return
			}
		}
	}
	s.put(string(quote))
	s.at++
}

// word writes a word, and # for its digits. If it looks like a number or an id, # is all that is left.
func (s *errorScan) word() {
	rest := s.in[s.at:]
	if n := uuidLen(rest); n > 0 {
		s.put("#")
		s.at += n
		return
	}
	n := 0
	for n < len(rest) && (isWord(rest[n]) ||
		isDigit(rest[0]) && rest[n] == '.' && n+1 < len(rest) && isWord(rest[n+1])) {
		n++
	}
	word := rest[:n]
	if strings.HasPrefix(rest[n:], "://") {
		s.put(withoutDigits(word) + "://…")
		s.at += n + pathLen(rest[n:], true)
		return
	}
	s.at += n
	if looksLikeID(word) {
		s.put("#")
		return
	}
	s.put(withoutDigits(word))
}

// looksLikeID says that a word is a number, perhaps with a unit, a hexadecimal number, or an id of letters
// and digits.
func looksLikeID(word string) bool {
	digits, hex, switches := 0, true, 0
	for i := range len(word) {
		if isDigit(word[i]) {
			digits++
		}
		hex = hex && isHex(word[i])
		if i > 0 && isDigit(word[i]) != isDigit(word[i-1]) {
			switches++
		}
	}
	return isDigit(word[0]) || digits > 0 && hex && len(word) >= 6 || len(word) >= 8 && switches >= 3
}

func withoutDigits(word string) string {
	if strings.IndexFunc(word, func(r rune) bool { return r >= '0' && r <= '9' }) < 0 {
		return word
	}
	var b []byte
	for i := range len(word) {
		if !isDigit(word[i]) {
			b = append(b, word[i])
		} else if i == 0 || !isDigit(word[i-1]) {
			b = append(b, '#')
		}
	}
	return string(b)
}

// pathHere is the length of the path that begins here; 0: none does.
func (s *errorScan) pathHere() int {
	if s.behindWord() {
		return 0
	}
	rest := s.in[s.at:]
	if len(rest) > 3 && isLetter(rest[0]) && rest[1] == ':' && rest[2] == '\\' {
		return 2 + pathLen(rest[2:], false)
	}
	slash := strings.TrimPrefix(strings.TrimPrefix(rest, "~"), "..")
	slash = strings.TrimPrefix(slash, ".")
	if len(slash) < 2 || slash[0] != '/' || !isWord(slash[1]) && slash[1] != '.' && slash[1] != '_' {
		return 0
	}
	return len(rest) - len(slash) + pathLen(slash, false)
}

// pathLen is how far a path or a URL goes: not over spaces, quotes and brackets, a path not over a colon
// either, and without the punctuation behind it.
func pathLen(s string, url bool) (n int) {
	ends := " \t\r\n\"'`<>()[]{}|,;"
	if !url {
		ends += ":"
	} else if strings.HasPrefix(s, "://[") { // an IPv6 address
		n = strings.IndexByte(s, ']') + 1
	}
	for n < len(s) && s[n] > ' ' && !strings.Contains(ends, s[n:n+1]) {
		n++
	}
	for n > 0 && (s[n-1] == '.' || s[n-1] == ':') {
		n--
	}
	return n
}

// behindWord says that the thing before is part of a word.
func (s *errorScan) behindWord() bool { return s.at > 0 && isWord(s.in[s.at-1]) }

func (s *errorScan) next(n int, is func(byte) bool) bool {
	return s.at+n < len(s.in) && is(s.in[s.at+n])
}

func (s *errorScan) put(text string) {
	s.out = append(s.out, text...)
	s.runes += utf8.RuneCountInString(text)
}

// text is what was written, without the end that is too long.
func (s *errorScan) text() string {
	text := string(s.out)
	if s.runes <= maxFingerprintText {
		return text
	}
	return string([]rune(text)[:maxFingerprintText])
}

func isDigit(c byte) bool  { return '0' <= c && c <= '9' }
func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }
func isHex(c byte) bool    { return isDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'f' }

// isWord says that a byte is part of a word: a letter of any script, or a digit.
func isWord(c byte) bool { return isDigit(c) || isLetter(c) || c >= utf8.RuneSelf }

// uuidLen is 36 if a text begins with a UUID, else 0.
func uuidLen(s string) int {
	const shape = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"
	if len(s) < len(shape) || len(s) > len(shape) && isWord(s[len(shape)]) {
		return 0
	}
	for i := range len(shape) {
		if (shape[i] == '-') != (s[i] == '-') || shape[i] == 'x' && !isHex(s[i]) {
			return 0
		}
	}
	return len(shape)
}
