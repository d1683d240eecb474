package postgres

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/carillon-run/carillon"
)

// The body of a piece is one byte that says whether the rest is compressed, and then
//
//	uvarint   how long the heads are
//	heads     of every line: time since the one before, stream, length of the text
//	texts     one after another
//
// Texts are separate from their heads because they compress better that way.
const (
	bodyPlain = iota
	bodyDeflated
)

// streams are the streams that are written as a number alone. Any other stream has number 0, followed by its
// name.
var streams = [...]string{1: "stdout", 2: "stderr", 3: "carillon"}

// worthPacking is the least size that is worth the time to compress.
const worthPacking = 128

// packers keeps compressors, because making one takes more memory and time than compressing a piece.
type packers struct {
	writers, readers sync.Pool
}

func (p *packers) pack(lines []carillon.Line) []byte {
	var heads []byte
	size, last := 0, carillon.Time(0)
	for i := range lines {
		heads = binary.AppendVarint(heads, int64(lines[i].At-last))
		heads = appendStream(heads, lines[i].Stream)
		heads = binary.AppendUvarint(heads, uint64(len(lines[i].Text)))
		size, last = size+len(lines[i].Text), lines[i].At
	}
	plain := make([]byte, 0, 1+binary.MaxVarintLen32+len(heads)+size)
	plain = binary.AppendUvarint(append(plain, bodyPlain), uint64(len(heads)))
	plain = append(plain, heads...)
	for i := range lines {
		plain = append(plain, lines[i].Text...)
	}
	if len(plain) >= worthPacking {
		if packed := p.deflate(plain[1:]); len(packed) < len(plain) {
			return packed
		}
	}
	return plain
}

func appendStream(b []byte, name string) []byte {
	for i, known := range streams {
		if i > 0 && name == known {
			return append(b, byte(i))
		}
	}
	b = binary.AppendUvarint(append(b, 0), uint64(len(name)))
	return append(b, name...)
}

// deflate compresses at the fastest level, which takes half the time of the default level for 4 % more bytes:
// a log of requests shrinks 7.5 to 1 in pieces of 64 KiB, and 4 to 1 in pieces of 1 KiB. gzip would add 18
// bytes to each piece.
func (p *packers) deflate(plain []byte) []byte {
	out := bytes.NewBuffer(make([]byte, 0, 64+len(plain)/4))
	out.WriteByte(bodyDeflated)
	w, _ := p.writers.Get().(*flate.Writer)
	if w == nil {
		w, _ = flate.NewWriter(nil, flate.BestSpeed) // fails only for levels that do not exist
	}
	w.Reset(out)
	_, err := w.Write(plain)
	if err = errors.Join(err, w.Close()); err != nil {
		panic("a buffer cannot be written to: " + err.Error())
	}
	p.writers.Put(w)
	return out.Bytes()
}

// unpack returns the heads and the texts of a piece.
func (p *packers) unpack(body []byte) (heads, texts []byte, err error) {
	if len(body) == 0 || body[0] > bodyDeflated {
		return nil, nil, errBody
	}
	plain := body[1:]
	if body[0] == bodyDeflated {
		if plain, err = p.inflate(plain); err != nil {
			return nil, nil, fmt.Errorf("%w: %w", errBody, err)
		}
	}
	size, n := binary.Uvarint(plain)
	if n <= 0 || size > uint64(len(plain)-n) {
		return nil, nil, errBody
	}
	return plain[n : n+int(size)], plain[n+int(size):], nil
}

var errBody = errors.New("a piece of a log is written in a way that this program does not know")

func (p *packers) inflate(packed []byte) ([]byte, error) {
	src := bytes.NewReader(packed)
	r, _ := p.readers.Get().(io.Reader)
	if r == nil {
		r = flate.NewReader(src)
	} else if err := r.(flate.Resetter).Reset(src, nil); err != nil {
		return nil, err
	}
	defer p.readers.Put(r)
	return io.ReadAll(r)
}

// eachLine calls f for the lines of a piece, in order.
func eachLine(heads, texts []byte, f func(at carillon.Time, stream string, text []byte)) error {
	at := carillon.Time(0)
	for len(heads) > 0 {
		since, n := binary.Varint(heads)
		if n <= 0 {
			return errBody
		}
		at += carillon.Time(since)
		stream, rest, ok := cutStream(heads[n:])
		if !ok {
			return errBody
		}
		size, n := binary.Uvarint(rest)
		if n <= 0 || size > uint64(len(texts)) {
			return errBody
		}
		f(at, stream, texts[:size])
		heads, texts = rest[n:], texts[size:]
	}
	return nil
}

func cutStream(b []byte) (name string, rest []byte, ok bool) {
	if len(b) == 0 || int(b[0]) >= len(streams) {
		return "", nil, false
	}
	if b[0] > 0 {
		return streams[b[0]], b[1:], true
	}
	size, n := binary.Uvarint(b[1:])
	if n <= 0 || size > uint64(len(b)-1-n) {
		return "", nil, false
	}
	end := 1 + n + int(size)
	return string(b[1+n : end]), b[end:], true
}
