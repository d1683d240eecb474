package executor

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"
)

// output turns the bytes that a command writes into lines for one task, and keeps them within bounds.
type output struct {
	task Task
	max  int64
	used atomic.Int64
	cut  sync.Once
}

const (
	maxLine   = 64 << 10
	firstLine = 4 << 10 // most commands say little: a thousand of them should not hold 128 MB of buffers
	goesOn    = " [line goes on]"

	// lineCost is what a line costs besides its text: time, stream and offset are kept with it. Without it a
	// command that prints empty lines could fill the log with millions of them.
	lineCost = 64
)

// copy prints every line of r until r ends. It goes on reading when it keeps no more lines: a command must
// not stand still because it prints too much.
func (o *output) copy(stream string, r io.Reader) {
	buf, used := make([]byte, firstLine), 0
	for {
		n, err := r.Read(buf[used:])
		rest := buf[:used+n]
		// A gigabyte that is not kept must not cost the time to split it into lines.
		cut := o.used.Load() > o.max
		if !cut && bytes.IndexByte(buf[used:used+n], '\n') >= 0 { // only new bytes can end a line
			rest = o.lines(stream, rest)
		}
		used += n
		switch {
		case o.used.Load() > o.max:
			rest = nil
		case len(rest) == len(buf) && len(buf) >= maxLine:
			rest = o.piece(stream, rest)
		case used == len(buf) && len(buf) < maxLine:
			buf = append(make([]byte, 0, 2*len(buf)), rest...)[:2*len(buf)]
			rest = buf[:len(rest)]
		}
		used = copy(buf, rest)
		if err == nil {
			continue
		}
		if used > 0 {
			o.line(stream, string(buf[:used]))
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			o.task.remark("%s is not read to its end: a process outside this run holds it open", stream)
		}
		return
	}
}

// lines prints the complete lines of b and returns the rest.
func (o *output) lines(stream string, b []byte) (rest []byte) {
	for {
		line, after, found := bytes.Cut(b, []byte{'\n'})
		if !found {
			return b
		}
		o.line(stream, string(line))
		b = after
	}
}

// piece prints an overlong line up to its last complete character.
func (o *output) piece(stream string, b []byte) (rest []byte) {
	end := len(b)
	for back := 1; back < utf8.UTFMax; back++ {
		if utf8.RuneStart(b[len(b)-back]) {
			if !utf8.FullRune(b[len(b)-back:]) {
				end = len(b) - back
			}
			break
		}
	}
	o.line(stream, string(b[:end])+goesOn)
	return b[end:]
}

func (o *output) line(stream, line string) {
	if o.used.Add(int64(len(line))+lineCost) > o.max {
		o.cut.Do(func() { o.task.remark("the output is cut here: more than %s", size(o.max)) })
		return
	}
	o.task.print(stream, clean(strings.TrimSuffix(line, "\r")))
}

func size(n int64) string {
	if n%(1<<20) == 0 {
		return strconv.FormatInt(n>>20, 10) + " MiB"
	}
	return strconv.FormatInt(n, 10) + " bytes"
}
