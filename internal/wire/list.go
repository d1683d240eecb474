package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/carillon-run/carillon"
)

// List is a list that comes whole.
type List[T any] struct {
	Items []T `json:"items"`
}

// Page is a piece of a list. It can be short or empty and still have a next page; only an empty Next is the
// end.
type Page[T any] struct {
	Items []T    `json:"items"`
	Next  Cursor `json:"next_cursor"`
}

// Cursor is where the next page of a list begins. It is null in JSON at the end of the list.
type Cursor string

func (c Cursor) MarshalJSON() ([]byte, error) {
	if c == "" {
		return []byte("null"), nil
	}
	return json.Marshal(string(c))
}

// NewPage makes sure that an empty list is [], not null.
func NewPage[T any](items []T, next Cursor) Page[T] {
	if items == nil {
		items = []T{}
	}
	return Page[T]{items, next}
}

// Lines of a log travel as a List, one after the other as they are printed. LinesBegin and LinesEnd are the
// text around them.
const (
	LinesBegin = `{"items":[`
	LinesEnd   = "]}\n"
)

// AppendLine writes a line of a log.
func AppendLine(b []byte, line *carillon.Line, first bool) ([]byte, error) {
	if !first {
		b = append(b, ',')
	}
	text, err := json.Marshal(line)
	return append(append(b, text...), '\n'), err
}

// ReadLines passes each line of a log to take as it comes, until take returns false.
func ReadLines(from io.Reader, take func(carillon.Line) bool) error {
	dec := json.NewDecoder(from)
	for _, want := range []json.Token{json.Delim('{'), "items", json.Delim('[')} {
		token, err := dec.Token()
		if err != nil {
			return atEnd(err)
		}
		if token != want {
			return fmt.Errorf("want %v, not %v", want, token)
		}
	}
	for dec.More() {
		var line carillon.Line
		if err := dec.Decode(&line); err != nil {
			return atEnd(err)
		}
		if !take(line) {
			return nil
		}
	}
	_, err := dec.Token() // the closing bracket: without it the answer is incomplete
	return atEnd(err)
}

// atEnd makes an end in the middle an error; encoding/json returns a plain EOF for some of them.
func atEnd(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
