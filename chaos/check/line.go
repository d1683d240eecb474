// Package check judges what happened in a trial of real processes. It reads what witnesses wrote: job bodies,
// a register outside of Carillon, the callers that sent commands, and the program that did the faults. What
// Carillon says about its runs is a claim that the package compares with that.
package check

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/carillon-run/carillon"
)

// Kind says what a job body witnessed.
type Kind uint8

const (
	KindStart Kind = iota + 1
	KindBusy       // right after the start: another body of the same key had the lock
	KindAlive
	KindFail // it ends with a failure that its payload asks for
	KindEnd
)

var kinds = []string{"", "START", "BUSY", "ALIVE", "FAIL", "END"}

func (k Kind) String() string { return kinds[k] }

// Over says that the body wrote nothing after this line.
func (k Kind) Over() bool { return k == KindFail || k == KindEnd }

// Line is one line that a job body wrote. Bodies append each line to one file with one write.
type Line struct {
	Kind    Kind
	Attempt int32
	Version int32 // of the payload that the body saw
	Process int32 // the worker that ran the body
	Run     carillon.RunID
	Fence   int64
	At      carillon.Time
	Mono    time.Duration // CLOCK_BOOTTIME: the order of lines of all processes of a machine
}

func (l Line) String() string {
	return fmt.Sprintf(
		"%s %s %d %d %d %d %d %d", l.Kind, l.Run, l.Attempt, l.Fence, l.At, l.Mono, l.Version, l.Process,
	)
}

// Claimed is when the attempt was claimed, by the store's clock. The fence is made from it.
func (l Line) Claimed() carillon.Time { return carillon.Time(l.Fence >> 20) }

// Read returns the lines of a witness file, without a last line that is still being written. There is no file
// until a body has started.
func Read(path string) (lines []Line, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, 1<<20)
	for {
		text, err := r.ReadSlice('\n')
		if errors.Is(err, io.EOF) {
			return lines, nil
		}
		if err != nil {
			return nil, err
		}
		l, err := Parse(string(bytes.TrimSpace(text)))
		if err != nil {
			return nil, fmt.Errorf("witness line %q: %w", text, err)
		}
		lines = append(lines, l)
	}
}

// Parse reads a line as String writes it.
func Parse(text string) (Line, error) {
	f := strings.Fields(text)
	if len(f) != 8 {
		return Line{}, errors.New("want kind, run, attempt, fence, time, monotonic time, version and process")
	}
	kind := slices.Index(kinds, f[0])
	if kind < 1 {
		return Line{}, fmt.Errorf("no kind of line: %q", f[0])
	}
	run, err := carillon.ParseRunID(f[1])
	var n [6]int64
	for i := range n {
		var wrong error
		n[i], wrong = strconv.ParseInt(f[2+i], 10, 64)
		err = errors.Join(err, wrong)
	}
	return Line{
		Kind: Kind(kind), Run: run, Attempt: int32(n[0]), Fence: n[1], At: carillon.Time(n[2]),
		Mono: time.Duration(n[3]), Version: int32(n[4]), Process: int32(n[5]),
	}, err
}

// Interrupted are the attempts that started before a time and did not end before it, and whose run had no
// newer attempt by then.
func Interrupted(lines []Line, before carillon.Time) map[carillon.RunID]Line {
	open := map[carillon.RunID]Line{}
	for _, l := range lines {
		switch {
		case l.At >= before:
		case l.Kind == KindStart:
			open[l.Run] = l
		case l.Kind.Over():
			delete(open, l.Run)
		}
	}
	return open
}

// Summary counts the lines of the witnesses.
func Summary(lines []Line) string {
	count := map[Kind]int{}
	runs := map[carillon.RunID]bool{}
	for _, l := range lines {
		count[l.Kind]++
		runs[l.Run] = true
	}
	return fmt.Sprintf("%d runs, %d starts, %d ends", len(runs), count[KindStart], count[KindEnd])
}
