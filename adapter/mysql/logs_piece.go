package mysql

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"io"
	"iter"
	"sync"
	"time"

	"github.com/carillon-run/carillon"
)

// piece is the content of one row of log: consecutive lines of an attempt.
type piece struct {
	namespace string
	run       carillon.RunID
	attempt   int32
	offset    int64 // of the first line
	keep      time.Duration
	lines     []carillon.Line
}

// The size of a piece. Larger pieces compress better, smaller ones are read faster. Reading depends on
// maxLines: it must never become smaller than it was.
const (
	maxLines = 1000
	maxText  = 64 << 10 // a longer line is a piece by itself
)

// pieces cuts chunks into pieces.
func pieces(chunks []carillon.Chunk) iter.Seq[piece] {
	return func(yield func(piece) bool) {
		for _, c := range chunks {
			for len(c.Lines) > 0 {
				n := fitting(c.Lines)
				if !yield(piece{c.Namespace, c.Run, c.Attempt, c.Offset, c.Keep, c.Lines[:n]}) {
					return
				}
				c.Lines, c.Offset = c.Lines[n:], c.Offset+int64(n)
			}
		}
	}
}

func fitting(lines []carillon.Line) int {
	text := 0
	for i := range lines {
		text += len(lines[i].Text)
		if i == maxLines || i > 0 && text > maxText {
			return i
		}
	}
	return len(lines)
}

// press packs lines and unpacks them. The zero value is ready.
//
// A body begins with the length of the plain form, followed by that form deflated. If deflating would not
// make it shorter, the body is 0, followed by the plain form itself. The plain form has for each line the
// time since the previous line, the stream and the length of the text. Then come the texts, each with a line
// feed at its end: together they compress best.
type press struct {
	writers, readers sync.Pool // each has its own tables, of up to a megabyte
}

// errDamaged says that a piece is not as it was written.
var errDamaged = errors.New("the piece is damaged")

// streams have numbers, their indexes. For any other stream the number is the length of its name plus
// len(streams), and the name follows.
var streams = []string{"stdout", "stderr", "carillon"}

// tooShort is the size below which bodies do not get shorter: most runs print a line or two.
const tooShort = 100

func (p *press) pack(lines []carillon.Line) ([]byte, error) {
	plain := plainBody(lines)
	if len(plain) < tooShort {
		return plain, nil
	}
	b := bytes.NewBuffer(make([]byte, 0, len(plain)/2))
	b.Write(binary.AppendUvarint(nil, uint64(len(plain)-1)))
	w, _ := p.writers.Get().(*flate.Writer)
	if w == nil {
		var err error
		if w, err = flate.NewWriter(b, flate.BestSpeed); err != nil {
			return nil, err
		}
	}
	defer p.writers.Put(w)
	w.Reset(b)
	_, err := w.Write(plain[1:])
	if err = errors.Join(err, w.Close()); err != nil {
		return nil, err
	}
	if b.Len() < len(plain) {
		return b.Bytes(), nil
	}
	return plain, nil
}

// plainBody returns the plain form with the 0 in front.
func plainBody(lines []carillon.Line) []byte {
	size := 1
	for i := range lines {
		size += len(lines[i].Text) + 16
	}
	b := append(make([]byte, 0, size), 0)
	var before carillon.Time
	for i := range lines {
		line := &lines[i]
		b = binary.AppendVarint(b, int64(line.At-before))
		b = appendStream(b, line.Stream)
		b = binary.AppendUvarint(b, uint64(len(line.Text)))
		before = line.At
	}
	for i := range lines {
		b = append(b, lines[i].Text...)
		b = append(b, '\n')
	}
	return b
}

func appendStream(b []byte, stream string) []byte {
	for i, known := range streams {
		if stream == known {
			return binary.AppendUvarint(b, uint64(i))
		}
	}
	b = binary.AppendUvarint(b, uint64(len(streams)+len(stream)))
	return append(b, stream...)
}

// unpack undoes pack.
func (p *press) unpack(body []byte, count int) ([]carillon.Line, error) {
	plain, err := p.inflate(body)
	if err != nil {
		return nil, err
	}
	return linesOf(plain, count)
}

// largest is more than the size of any piece: a length beyond it is damaged.
const largest = 1 << 30

func (p *press) inflate(body []byte) ([]byte, error) {
	size, n := binary.Uvarint(body)
	if n <= 0 || size > largest {
		return nil, errDamaged
	}
	if size == 0 {
		return body[n:], nil
	}
	src := bytes.NewReader(body[n:])
	r, _ := p.readers.Get().(io.ReadCloser)
	if r == nil {
		r = flate.NewReader(src)
	} else if err := r.(flate.Resetter).Reset(src, nil); err != nil {
		return nil, err
	}
	defer p.readers.Put(r)
	var plain bytes.Buffer
	plain.Grow(int(min(size, 2*maxText))) // the length may be damaged: get more only as data comes
	if got, err := io.Copy(&plain, io.LimitReader(r, int64(size))); err != nil || got < int64(size) {
		return nil, errors.Join(errDamaged, err)
	}
	return plain.Bytes(), nil
}

// linesOf takes the plain form of a piece apart.
func linesOf(plain []byte, count int) ([]carillon.Line, error) {
	if count < 0 || count > len(plain) {
		return nil, errDamaged
	}
	lines, sizes := make([]carillon.Line, count), make([]int, count)
	r := bytesReader{rest: plain}
	var at carillon.Time
	total := 0
	for i := range lines {
		at += carillon.Time(r.varint())
		lines[i].At, lines[i].Stream = at, r.stream()
		size := r.uvarint()
		if size > uint64(len(r.rest)) {
			return nil, errDamaged
		}
		sizes[i] = int(size)
		total += int(size) + 1
	}
	if r.bad || total != len(r.rest) {
		return nil, errDamaged
	}
	texts := string(r.rest) // one copy for all of them
	for i, size := range sizes {
		lines[i].Text, texts = texts[:size], texts[size+1:]
	}
	return lines, nil
}

// bytesReader reads numbers and names until one is wrong.
type bytesReader struct {
	rest []byte
	bad  bool
}

func (r *bytesReader) varint() int64 {
	n, size := binary.Varint(r.rest)
	r.skip(size)
	return n
}

func (r *bytesReader) uvarint() uint64 {
	n, size := binary.Uvarint(r.rest)
	r.skip(size)
	return n
}

func (r *bytesReader) skip(n int) {
	r.bad = r.bad || n <= 0
	r.rest = r.rest[max(n, 0):]
}

func (r *bytesReader) stream() string {
	n := r.uvarint()
	if n < uint64(len(streams)) {
		return streams[n]
	}
	n -= uint64(len(streams))
	if n > uint64(len(r.rest)) {
		r.bad = true
		return ""
	}
	name := string(r.rest[:n])
	r.rest = r.rest[n:]
	return name
}
