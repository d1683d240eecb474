package disk

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/hex"
	"errors"
	"io"
	"strconv"
	"unicode/utf8"

	"github.com/carillon-run/carillon"
)

// position is the place of a line in what a run prints.
type position struct {
	attempt int32
	offset  int64
}

func (p position) compare(o position) int {
	return cmp.Or(cmp.Compare(p.attempt, o.attempt), cmp.Compare(p.offset, o.offset))
}

func (p position) less(o position) bool { return p.compare(o) < 0 }

// record is a line of a file. Its text is still escaped and valid until the next one is read.
type record struct {
	position
	at     carillon.Time
	stream string
	text   []byte
}

func (r *record) line() carillon.Line {
	text := r.text
	if bytes.IndexByte(text, '\\') >= 0 {
		text, _ = appendPlain(nil, text)
	}
	return carillon.Line{At: r.at, Stream: r.stream, Text: string(text), Attempt: r.attempt, Offset: r.offset}
}

func appendRecord(b []byte, p position, line *carillon.Line) []byte {
	b = strconv.AppendInt(b, int64(p.attempt), 10)
	b = append(b, ' ')
	b = strconv.AppendInt(b, p.offset, 10)
	b = append(b, ' ')
	b = strconv.AppendInt(b, int64(line.At), 10)
	b = append(b, ' ')
	b = appendEscaped(b, line.Stream, ' ')
	b = append(b, ' ')
	b = appendEscaped(b, line.Text, '\\')
	return append(b, '\n')
}

// parse reads what appendRecord wrote, without the line's end. Everything else is not a record.
func parse(b []byte) (r record, ok bool) {
	var fields [4][]byte
	for i := range fields {
		if fields[i], b, ok = bytes.Cut(b, []byte{' '}); !ok {
			return record{}, false
		}
	}
	attempt, err1 := strconv.ParseInt(string(fields[0]), 10, 32)
	offset, err2 := strconv.ParseInt(string(fields[1]), 10, 64)
	at, err3 := strconv.ParseInt(string(fields[2]), 10, 64)
	stream, ok := streamName(fields[3])
	if err1 != nil || err2 != nil || err3 != nil || !ok || !plain(b) {
		return record{}, false
	}
	return record{position{int32(attempt), offset}, carillon.Time(at), stream, b}, true
}

// streamName spares an allocation for every line.
func streamName(b []byte) (string, bool) {
	switch string(b) {
	case "stdout":
		return "stdout", true
	case "stderr":
		return "stderr", true
	}
	name, ok := appendPlain(nil, b)
	return string(name), ok
}

// appendEscaped writes text so that it stays on one line, harms no terminal and is UTF-8 (or grep would call the file
// binary): backslashes, control characters except tabs, broken UTF-8, and the character also are escaped.
func appendEscaped(b []byte, s string, also byte) []byte {
	done := 0
	for i := 0; i < len(s); {
		c, size := s[i], 1
		good := c >= ' ' && c != '\\' && c != 0x7f && c != also || c == '\t'
		if c >= utf8.RuneSelf {
			var r rune
			r, size = utf8.DecodeRuneInString(s[i:])
			good = (r != utf8.RuneError || size > 1) && r > 0x9f // up to there they control terminals, too
		}
		if !good {
			b = append(b, s[done:i]...)
			for _, c := range []byte(s[i : i+size]) {
				b = appendEscape(b, c)
			}
			done = i + size
		}
		i += size
	}
	return append(b, s[done:]...)
}

func appendEscape(b []byte, c byte) []byte {
	switch c {
	case '\\':
		return append(b, `\\`...)
	case '\n':
		return append(b, `\n`...)
	case '\r':
		return append(b, `\r`...)
	}
	return hex.AppendEncode(append(b, `\x`...), []byte{c})
}

// torn ends a line that a crash or a full disk has cut off. It is no valid escape, not even after half of one.
const torn = `\~torn\~` + "\n"

// plain says whether b could have been written by appendEscaped.
func plain(b []byte) bool {
	if bytes.IndexByte(b, 0) >= 0 { // a hole that a power cut has left
		return false
	}
	if bytes.IndexByte(b, '\\') < 0 {
		return true
	}
	_, ok := appendPlain(nil, b)
	return ok
}

// appendPlain undoes appendEscaped.
func appendPlain(to, b []byte) (_ []byte, ok bool) {
	for {
		i := bytes.IndexByte(b, '\\')
		if i < 0 {
			return append(to, b...), true
		}
		to, b = append(to, b[:i]...), b[i+1:]
		if len(b) == 0 {
			return nil, false
		}
		kind := b[0]
		b = b[1:]
		switch kind {
		case '\\':
			to = append(to, '\\')
		case 'n':
			to = append(to, '\n')
		case 'r':
			to = append(to, '\r')
		case 'x':
			if len(b) < 2 {
				return nil, false
			}
			var err error
			if to, err = hex.AppendDecode(to, b[:2]); err != nil {
				return nil, false
			}
			b = b[2:]
		default:
			return nil, false
		}
	}
}

// reader reads the records of a file and passes over everything else.
type reader struct {
	src  *bufio.Reader
	long []byte // a line that is longer than the buffer of src
	next int64  // where in the file the next line begins
}

func newReader(f io.ReaderAt, from, to int64) *reader {
	r := &reader{src: bufio.NewReaderSize(nil, 16<<10)}
	r.reset(f, from, to)
	return r
}

func (r *reader) reset(f io.ReaderAt, from, to int64) {
	r.src.Reset(io.NewSectionReader(f, from, to-from))
	r.next = from
}

// read returns the next record and where it begins. io.EOF means that there is none yet: a line without an end is not
// read, as somebody may be writing it.
func (r *reader) read() (rec record, at int64, err error) {
	for {
		line, err := r.line()
		if err != nil {
			return record{}, 0, err
		}
		at, r.next = r.next, r.next+int64(len(line))
		if rec, ok := parse(line[:len(line)-1]); ok {
			return rec, at, nil
		}
	}
}

func (r *reader) line() ([]byte, error) {
	line, err := r.src.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return line, err
	}
	r.long = r.long[:0]
	for errors.Is(err, bufio.ErrBufferFull) {
		r.long = append(r.long, line...)
		line, err = r.src.ReadSlice('\n')
	}
	r.long = append(r.long, line...)
	return r.long, err
}
