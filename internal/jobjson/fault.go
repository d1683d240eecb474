package jobjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/carillon-run/carillon"
)

// checkText refuses input that encoding/json would silently turn into U+FFFD: bytes that are not UTF-8, and
// escapes of half a surrogate pair. Two different texts must not become one. The lexer checks the same; this
// function says what is wrong.
func checkText(body []byte) error {
	if !utf8.Valid(body) {
		return &carillon.FieldError{
			Field: "body", Given: "bytes that are not UTF-8", Want: "JSON in UTF-8", Wrong: "it is not UTF-8",
		}
	}
	for i := 0; i+1 < len(body); i++ {
		if body[i] != '\\' {
			continue
		}
		i++ // to the escaped character, so that \\ud800 is not mistaken for an escape
		if r := codeUnit(body[i:]); utf16.IsSurrogate(r) {
			if i+6 > len(body) || body[i+5] != '\\' ||
				utf16.DecodeRune(r, codeUnit(body[i+6:])) == utf8.RuneError {
				half := `\` + string(body[i:i+5])
				return &carillon.FieldError{
					Field: "body", Given: half, Want: "both halves, or none",
					Wrong: half + " is half of a surrogate pair",
				}
			}
			i += 10
		}
	}
	return nil
}

// checkSyntax says where JSON stops being JSON. The error names the body and not a field, because the place
// where a reader notices a missing quote or brace can be far behind the mistake.
func checkSyntax(body []byte) error {
	var bad *json.SyntaxError
	if !errors.As(json.Unmarshal(body, new(json.RawMessage)), &bad) {
		return nil
	}
	at := min(int(bad.Offset), len(body))
	before := body[:max(0, at-1)]
	line, column := 1+bytes.Count(before, []byte("\n")), 1+
		utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:])
	return &carillon.FieldError{
		Field: "body", Given: strings.ToValidUTF8(string(body[max(0, at-20):min(len(body), at+10)]), ""),
		Want: "JSON",
		Wrong: fmt.Sprintf(
			"%s at line %d, column %d (byte %d)", strings.TrimPrefix(bad.Error(), "json: "), line, column, at,
		),
	}
}

// under puts one more step in front of the field that an error names: a field or the index of an item. The
// way to a fault grows from its end.
func under(step string, err error) error {
	var fault *carillon.FieldError
	if errors.As(err, &fault) {
		fault.Field = step + fault.Field
	}
	return err
}

func field(name []byte) string {
	if len(name) == 0 {
		return `.""`
	}
	return "." + Shorten(string(name), 64)
}

// inBody completes the field that an error names. There the way ends.
func inBody(err error) error {
	var fault *carillon.FieldError
	if errors.As(err, &fault) {
		if fault.Field = strings.TrimPrefix(fault.Field, "."); fault.Field == "" {
			fault.Field = "body"
		}
	}
	return err
}

func wrong(token json.Token, want string) error {
	return fault(given(token), want, given(token)+" is not valid")
}

// notText is the error for a number or a boolean where text belongs. In YAML such a value looks like text, so
// the error shows the quotes.
func notText(token json.Token) error {
	var what string
	switch token.(type) {
	case json.Number:
		what = "a number"
	case bool:
		what = "a boolean"
	default:
		return wrong(token, "text")
	}
	text := Shorten(given(token), maxGiven)
	return &carillon.FieldError{
		Given: text, Want: "text, in quotes: " + strconv.Quote(text), Wrong: text + " is " + what,
	}
}

func given(token json.Token) string {
	switch t := token.(type) {
	case nil:
		return "null"
	case json.Delim:
		return map[json.Delim]string{'{': "an object", '[': "a list"}[t]
	case string:
		return strconv.Quote(Shorten(t, maxGiven))
	}
	return fmt.Sprint(token)
}

// fault is an error about a value whose field the caller adds.
func fault(given, want, wrong string) error {
	return &carillon.FieldError{Given: given, Want: want, Wrong: wrong}
}

func invalid(field, given, want string) error {
	return &carillon.FieldError{Field: field, Given: given, Want: want}
}

// maxGiven bounds how much of a given value an error repeats.
const maxGiven = 200

// Shorten cuts at a rune, so that valid text stays valid text.
func Shorten(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit-3], "") + "..."
}
