package disk

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"strconv"
	"unicode/utf8"

	"github.com/carillon-run/carillon"
)

// record is a line of a file without its run. Its text is still escaped, and valid until the next line is
// read.
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

// runWidth is the length of a run's id and the space behind it.
var runWidth = len(carillon.RunID{}.String()) + 1

// runText is the beginning of every line of a run.
func runText(run carillon.RunID) []byte { return []byte(run.String() + " ") }

func appendRecord(b, runText []byte, p position, line *carillon.Line) []byte {
	b = append(b, runText...)
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

// parse reads a record that appendRecord wrote, without the run and the end of the line. Anything else is not
// a record.
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

// streamName spares an allocation for every line of the usual streams.
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

// appendEscaped writes text so that it stays on one line, harms no terminal and is UTF-8 (or grep would call
// the file binary). It escapes backslashes, control characters except tabs, broken UTF-8, and the character
// also.
func appendEscaped(b []byte, s string, also byte) []byte {
	done := 0
	for i := 0; i < len(s); {
		c, size := s[i], 1
		good := c >= ' ' && c != '\\' && c != 0x7f && c != also || c == '\t'
		if c >= utf8.RuneSelf {
			var r rune
			r, size = utf8.DecodeRuneInString(s[i:])
			good = (r != utf8.RuneError || size > 1) && r > 0x9f // up to 0x9f they control terminals, too
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

// plain says whether appendEscaped could have written b.
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

// reader reads the lines of a segment one after the other.
type reader struct {
	src  *bufio.Reader
	long []byte // a line that is longer than the buffer of src
	next int64  // where in the file the next line begins
}

func newReader(f io.Reader) *reader {
	return &reader{src: bufio.NewReaderSize(f, 256<<10)}
}

// line returns the next line without its end, and where the line begins. The line is valid until the next one
// is read. io.EOF means that there is none: a line without an end is torn.
func (r *reader) line() (line []byte, at int64, err error) {
	line, err = r.src.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		r.long = r.long[:0]
		for errors.Is(err, bufio.ErrBufferFull) {
			r.long = append(r.long, line...)
			line, err = r.src.ReadSlice('\n')
		}
		r.long = append(r.long, line...)
		line = r.long
	}
	if err != nil {
		return nil, 0, err
	}
	at, r.next = r.next, r.next+int64(len(line))
	return line[:len(line)-1], at, nil
}

// splitRun cuts the run off a line.
func splitRun(line []byte) (run carillon.RunID, rest []byte, ok bool) {
	if len(line) < runWidth || line[runWidth-1] != ' ' {
		return run, nil, false
	}
	run, err := carillon.ParseRunID(string(line[:runWidth-1]))
	return run, line[runWidth:], err == nil
}
