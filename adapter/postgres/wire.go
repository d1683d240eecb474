package postgres

import (
	"encoding/binary"
	"strings"
	"unicode/utf8"

	"github.com/carillon-run/carillon/internal/sqlcommon"
)

// The object ids of PostgreSQL's types.
const (
	oidBool   = 16
	oidBytea  = 17
	oidInt8   = 20
	oidInt2   = 21
	oidInt4   = 23
	oidText   = 25
	arrayHead = 20 // bytes before the elements of an array
)

// column is one column of many rows, as parameters in PostgreSQL's binary form. While all rows have the same
// value, it is that one value and an empty array; the statement uses the value where the array has none. Most
// columns of most batches are like that, and unpacking an array costs the server as much as writing the row.
type column struct {
	oid   uint32
	size  int  // of a number in bytes; 0: of any length
	key   bool // always an array: it says how many rows there are
	rows  int
	many  bool
	nulls bool   // in the array
	array []byte // with room for the head
	first []byte // the value of all rows while it is the same
	none  bool   // that value is NULL
}

func (c *column) reset() {
	c.rows, c.many, c.nulls, c.none = 0, c.key, false, false
	c.array, c.first = append(c.array[:0], make([]byte, arrayHead)...), c.first[:0]
}

func (c *column) int(v int64) {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(v))
	add(c, b[8-c.size:])
}

// add appends the value of one more row.
func add[T string | []byte](c *column, v T) {
	switch {
	case c.many:
		addElement(c, v)
	case c.rows == 0:
		c.first = append(c.first, v...)
	case c.none || string(c.first) != string(v):
		c.spread()
		addElement(c, v)
	}
	c.rows++
}

func (c *column) null() {
	switch {
	case c.many:
		c.nullElement()
	case c.rows == 0:
		c.none = true
	case !c.none:
		c.spread()
		c.nullElement()
	}
	c.rows++
}

// spread writes the common value of all rows so far into the array.
func (c *column) spread() {
	c.many = true
	for range c.rows {
		if c.none {
			c.nullElement()
		} else {
			addElement(c, c.first)
		}
	}
}

func addElement[T string | []byte](c *column, v T) {
	c.array = binary.BigEndian.AppendUint32(c.array, uint32(len(v)))
	c.array = append(c.array, v...)
}

func (c *column) nullElement() {
	c.array = binary.BigEndian.AppendUint32(c.array, 1<<32-1)
	c.nulls = true
}

// params appends the array and, unless it is a key, the common value.
func (c *column) params(to [][]byte) [][]byte {
	head := c.array[:0]
	if c.many {
		head = binary.BigEndian.AppendUint32(head, 1) // dimension
		head = binary.BigEndian.AppendUint32(head, bit(c.nulls))
		head = binary.BigEndian.AppendUint32(head, c.oid)
		head = binary.BigEndian.AppendUint32(head, uint32(c.rows))
		binary.BigEndian.AppendUint32(head, 1) // the first index
		to = append(to, c.array)
	} else {
		head = binary.BigEndian.AppendUint32(head, 0)
		head = binary.BigEndian.AppendUint32(head, 0)
		to = append(to, binary.BigEndian.AppendUint32(head, c.oid))
	}
	switch {
	case c.key:
		return to
	case c.many || c.none:
		return append(to, nil)
	}
	return append(to, append([]byte{}, c.first...)) // an empty one is not NULL
}

func bit(is bool) uint32 {
	if is {
		return 1
	}
	return 0
}

// clean returns a text that PostgreSQL accepts. PostgreSQL refuses invalid UTF-8 and the character 0, and one
// such row would fail the other rows of its batch for ever.
func clean(s string) string {
	if utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 {
		return s
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// Single parameters.
func int8Param(v int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(v)) }
func int4Param(v int) []byte   { return binary.BigEndian.AppendUint32(nil, uint32(v)) }
func int2Param(v int) []byte   { return binary.BigEndian.AppendUint16(nil, uint16(v)) }
func boolParam(v bool) []byte  { return []byte{byte(bit(v))} }
func textParam(s string) []byte {
	return append(make([]byte, 0, len(s)), clean(s)...)
}

// textOrNull is NULL for an empty text.
func textOrNull(s string) []byte {
	if s == "" {
		return nil
	}
	return textParam(s)
}

// int8Array returns an array as one parameter.
func int8Array[T ~int64](values []T) []byte {
	c := column{oid: oidInt8, size: 8, key: true}
	c.reset()
	for _, v := range values {
		c.int(int64(v))
	}
	return c.params(nil)[0]
}

func int4Array[T ~int32](values []T) []byte {
	c := column{oid: oidInt4, size: 4, key: true}
	c.reset()
	for _, v := range values {
		c.int(int64(v))
	}
	return c.params(nil)[0]
}

func textArray(values []string) []byte {
	c := column{oid: oidText, key: true}
	c.reset()
	for _, v := range values {
		add(&c, clean(v))
	}
	return c.params(nil)[0]
}

// row is one row of a result, read column by column.
type row struct {
	values [][]byte
	at     int
	names  *sqlcommon.Names
}

func (r *row) next() []byte {
	v := r.values[r.at]
	r.at++
	return v
}

// int reads a number of any size; NULL is 0.
func (r *row) int() int64 {
	switch v := r.next(); len(v) {
	case 8:
		return int64(binary.BigEndian.Uint64(v))
	case 4:
		return int64(int32(binary.BigEndian.Uint32(v)))
	case 2:
		return int64(int16(binary.BigEndian.Uint16(v)))
	}
	return 0
}

// intOr reads a number; NULL is usual.
func (r *row) intOr(usual int64) int64 {
	if r.values[r.at] == nil {
		r.at++
		return usual
	}
	return r.int()
}

func (r *row) bool() bool {
	v := r.next()
	return len(v) > 0 && v[0] != 0
}

func (r *row) text() string { return string(r.next()) }

// name reads a text that many rows share.
func (r *row) name() string { return r.names.Of(r.next()) }

// bytes reads a copy; NULL is nil.
func (r *row) bytes() []byte {
	v := r.next()
	if v == nil {
		return nil
	}
	return append(make([]byte, 0, len(v)), v...)
}
