// Package chaos runs real processes under faults and checks what happened with its own witnesses: job bodies
// append lines to one file, and the checker reads that file. It never asks the system under test what
// happened.
package chaos

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/carillon-run/carillon"
)

// Line is one line that a job body wrote. Bodies append each line to one file with one write, so the order of
// the lines is the order of the events.
type Line struct {
	Kind    string // START, ALIVE or END
	Run     carillon.RunID
	Attempt int32
	Fence   int64
	At      carillon.Time
}

// Body is a job's program: it writes that it started, that it is alive, and that it ended. A test binary that
// re-executes itself runs it as a command target.
func Body(witness string, d time.Duration) error {
	f, err := open(witness)
	if err != nil {
		return err
	}
	defer f.Close()
	v := voice{f, os.Getenv("CARILLON_RUN_ID"), os.Getenv("CARILLON_ATTEMPT"), os.Getenv("CARILLON_FENCE")}
	return errors.Join(v.live(context.Background(), d), v.say("END"))
}

// Read returns the lines of a witness file, without a last line that is still being written. There is no file
// until a body has started.
func Read(path string) (lines []Line, err error) {
	b, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for text := range strings.Lines(string(b)) {
		if !strings.HasSuffix(text, "\n") {
			break
		}
		l, err := parse(text)
		if err != nil {
			return nil, fmt.Errorf("witness line %q: %w", text, err)
		}
		lines = append(lines, l)
	}
	return lines, nil
}

func parse(text string) (Line, error) {
	f := strings.Fields(text)
	if len(f) != 5 {
		return Line{}, errors.New("want kind, run, attempt, fence and time")
	}
	run, err1 := carillon.ParseRunID(f[1])
	attempt, err2 := strconv.ParseInt(f[2], 10, 32)
	fence, err3 := strconv.ParseInt(f[3], 10, 64)
	at, err4 := strconv.ParseInt(f[4], 10, 64)
	return Line{f[0], run, int32(attempt), fence, carillon.Time(at)}, errors.Join(err1, err2, err3, err4)
}

// Check returns where the lines break the promises: no start is early, no two attempts of a job run at once,
// and fences rise. A line of an older attempt after a newer one began is an overlap.
func Check(lines []Line) (broken []string) {
	newest := map[carillon.JobID]Line{}
	for _, l := range lines {
		if l.Kind == "START" && l.At < l.Run.Due {
			broken = append(broken, fmt.Sprintf("early: %s started at %s", l.Run, l.At))
		}
		before, any := newest[l.Run.Job]
		switch {
		case any && l.Fence < before.Fence:
			broken = append(
				broken,
				fmt.Sprintf(
					"overlap: %s of fence %d at %s, after fence %d began at %s", l.Kind, l.Fence, l.At,
					before.Fence, before.At,
				),
			)
		case !any || l.Fence > before.Fence:
			if l.Kind != "START" {
				broken = append(
					broken, fmt.Sprintf("%s of %s attempt %d without START", l.Kind, l.Run, l.Attempt),
				)
			}
			newest[l.Run.Job] = l
		case l.Kind == "START":
			broken = append(
				broken, fmt.Sprintf("twice: %s attempt %d started twice with one fence", l.Run, l.Attempt),
			)
		}
	}
	return broken
}

// Interrupted are the attempts that started before a time and did not end before it, and whose run had no
// newer attempt by then.
func Interrupted(lines []Line, before carillon.Time) map[carillon.RunID]Line {
	open := map[carillon.RunID]Line{}
	for _, l := range lines {
		if l.At >= before {
			continue
		}
		switch l.Kind {
		case "START":
			open[l.Run] = l
		case "END":
			delete(open, l.Run)
		}
	}
	return open
}

// Summary counts the lines of the witnesses.
func Summary(lines []Line) string {
	count := map[string]int{}
	runs := map[carillon.RunID]bool{}
	for _, l := range lines {
		count[l.Kind]++
		runs[l.Run] = true
	}
	return strings.TrimSpace(fmt.Sprintf(
		"%d runs, %d starts, %d ends", len(runs), count["START"], count["END"],
	))
}
