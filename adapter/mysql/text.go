package mysql

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/carillon-run/carillon"
)

// raw is an argument that is itself SQL: it is written as it is.
type raw string

// appendSQL writes a query with its arguments in the places of its question marks. The session's character
// set is binary and its sql_mode is ours, so a text is written as its bytes, with the few bytes escaped that
// would end it.
func appendSQL(b []byte, query string, args ...any) []byte {
	for _, arg := range args {
		before, after, found := strings.Cut(query, "?")
		if !found {
			panic("more arguments than places: " + before)
		}
		b = appendValue(append(b, before...), arg)
		query = after
	}
	return append(b, query...)
}

func appendValue(b []byte, value any) []byte {
	switch v := value.(type) {
	case nil:
		return append(b, "NULL"...)
	case raw:
		return append(b, v...)
	case string:
		return appendText(b, v)
	case []byte:
		if v == nil {
			return append(b, "NULL"...)
		}
		return appendText(b, v)
	case bool:
		if v {
			return append(b, '1')
		}
		return append(b, '0')
	case int:
		return strconv.AppendInt(b, int64(v), 10)
	case int64:
		return strconv.AppendInt(b, v, 10)
	case int32:
		return strconv.AppendInt(b, int64(v), 10)
	case int8:
		return strconv.AppendInt(b, int64(v), 10)
	case carillon.Time:
		return strconv.AppendInt(b, int64(v), 10)
	case carillon.JobID:
		return strconv.AppendInt(b, int64(v), 10)
	case carillon.State:
		return strconv.AppendInt(b, int64(v), 10)
	case carillon.JobState:
		return strconv.AppendInt(b, int64(v), 10)
	case carillon.Flags:
		return strconv.AppendInt(b, int64(v), 10)
	}
	panic(fmt.Sprintf("no SQL for a %T", value))
}

func appendText[T string | []byte](b []byte, text T) []byte {
	b = append(b, '\'')
	for i := range len(text) {
		switch c := text[i]; c {
		case '\'', '\\':
			b = append(b, '\\', c)
		case 0:
			b = append(b, '\\', '0')
		case 0x1a:
			b = append(b, '\\', 'Z')
		default:
			b = append(b, c)
		}
	}
	return append(b, '\'')
}

// or returns the value, or NULL for 0.
func or(t carillon.Time) any {
	if t == 0 {
		return nil
	}
	return t
}

// list writes the rows of a list, e.g. of IN (...).
func list[T any](items []T, row func(b []byte, item T) []byte) raw {
	var b []byte
	for i, item := range items {
		if i > 0 {
			b = append(b, ',')
		}
		b = row(b, item)
	}
	return raw(b)
}

func ints[T ~int | ~int64 | ~uint8](items []T) raw {
	return list(items, func(b []byte, item T) []byte { return strconv.AppendInt(b, int64(item), 10) })
}

func texts(items []string) raw { return list(items, appendText[string]) }

// dueJob writes the key of a run, jobDue the key of a dead letter.
func dueJob(b []byte, id carillon.RunID) []byte { return appendSQL(b, `(?,?)`, id.Due, id.Job) }
func jobDue(b []byte, id carillon.RunID) []byte { return appendSQL(b, `(?,?)`, id.Job, id.Due) }

// most is how many rows a statement names at most. MariaDB would make a table of a longer list and join it.
const most = 900

// packetSize is the length at which a packet is sent; one more row can still be added. By default servers
// take at least 4 MiB, MariaDB 16.
const packetSize = 2 << 20

// statements gathers statements into few packets.
type statements struct {
	packets [][]byte
	buf     []byte
}

func (s *statements) add(query string, args ...any) {
	s.next()
	s.buf = appendSQL(s.buf, query, args...)
}

// next prepares the script for another statement.
func (s *statements) next() {
	if len(s.buf) > packetSize {
		s.packets = append(s.packets, s.buf)
		s.buf = nil
	}
	if len(s.buf) > 0 {
		s.buf = append(s.buf, ';')
	}
}

// send sends the packets, one after another.
func (l *conn) send(s *statements) error {
	for _, packet := range append(s.packets, s.buf) {
		if err := l.exec(packet); err != nil {
			return err
		}
	}
	return nil
}

// buffer returns a buffer for a packet: growing a new one would cost a commit of thousands of rows a tenth of
// its time.
func (s *Store) buffer() []byte {
	if b, ok := s.buffers.Get().(*[]byte); ok {
		return (*b)[:0]
	}
	return nil
}

// mustBe fails if the statement before it did not write that many rows. Then the packet fails too: the server
// does not execute the statements behind it. Outside of a stored program only an expression can raise an
// error: a sum that is too large for a number.
const mustBe = `SET @rows = 9223372036854775807 + (ROW_COUNT() <> ?)`

// many writes statements over many items: the text before them, each item, and the text behind them. hits is
// how many rows each item must count for (see mustBe); 0: it does not matter.
func many[T any](
	s *statements, before string, items []T, item func(b []byte, item T) []byte, behind string, hits int,
) {
	for len(items) > 0 {
		s.next()
		s.buf = append(s.buf, before...)
		n := 0
		for n < len(items) && n < most && (n == 0 || len(s.buf) < packetSize) {
			if n > 0 {
				s.buf = append(s.buf, ',')
			}
			s.buf = item(s.buf, items[n])
			n++
		}
		s.buf = append(s.buf, behind...)
		if hits > 0 {
			s.buf = appendSQL(append(s.buf, ';'), mustBe, n*hits)
		}
		items = items[n:]
	}
}
