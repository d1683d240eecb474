package chaos

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/executor"
)

// taking is the payload of a job with limits: the number by which the test knows the job, and what a run of
// it takes of which keys, as in "three-2*2 ten-7".
type taking struct {
	Number int    `json:"number"`
	Takes  string `json:"takes"`
}

// takingHandler is a body that does almost nothing. It writes a line when it begins and a line when it ends,
// to a file of its own process: an attempt without an end has ended with the process.
func takingHandler(witness string) (executor.Handler, error) {
	f, err := open(witness)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, task executor.Task) error {
		var work taking
		if err := json.Unmarshal(task.Job.Payload, &work); err != nil {
			return executor.Fatal(err)
		}
		say := func(kind byte) error {
			_, err := fmt.Fprintf(f, "%c %d %d %d %d %d %d %s\n", kind, work.Number, task.Run.Attempt,
				task.Run.ID.Due, task.Run.Claimed, carillon.Now(), executor.Boottime(), work.Takes)
			return err
		}
		if err := say(takeBegan); err != nil {
			return err
		}
		select {
		case <-time.After(time.Duration(1+work.Number%3) * time.Millisecond):
			return say(takeEnded)
		case <-ctx.Done():
			if err := say(takeStopped); err != nil {
				return err
			}
			return context.Cause(ctx)
		}
	}, nil
}

const (
	takeBegan   = 'S'
	takeEnded   = 'E'
	takeStopped = 'X' // before its end
)

// taken is one attempt, by what its witness wrote.
type taken struct {
	number     int32
	attempt    int32
	due        carillon.Time
	claimed    carillon.Time // by the node, as it told the worker
	at         carillon.Time // its begin
	start, end time.Duration // of its body, on CLOCK_BOOTTIME; end 0: it has none yet
	takes      string
}

// takingWitness is the file of one worker process.
type takingWitness struct {
	path string
	gone time.Duration // when the process had been killed; 0: it lives
	file *os.File
	rest string // the beginning of a line whose end has not been read
	open map[[2]int32]int
}

// read reads the lines that were written since the last call. each gets the attempts that began, and returns
// their index; done gets the index of those that ended.
func (w *takingWitness) read(each func(taken) int, done func(i int, kind byte, at time.Duration)) error {
	if w.file == nil {
		f, err := os.Open(w.path)
		if os.IsNotExist(err) {
			return nil
		}
		if err != nil {
			return err
		}
		w.file, w.open = f, map[[2]int32]int{}
	}
	lines := bufio.NewReaderSize(w.file, 1<<16)
	for {
		text, err := lines.ReadString('\n')
		if err == io.EOF {
			w.rest += text
			return nil
		}
		if err != nil {
			return err
		}
		kind, a, at, err := readTaken(w.rest + strings.TrimSuffix(text, "\n"))
		w.rest = ""
		if err != nil {
			return fmt.Errorf("%s: %w", w.path, err)
		}
		name := [2]int32{a.number, a.attempt}
		if kind == takeBegan {
			w.open[name] = each(a)
			continue
		}
		i, known := w.open[name]
		if !known {
			return fmt.Errorf("%s: attempt %d of job %d ended and did not begin", w.path, a.attempt, a.number)
		}
		delete(w.open, name)
		done(i, kind, at)
	}
}

func readTaken(line string) (kind byte, a taken, at time.Duration, err error) {
	fields := strings.SplitN(line, " ", 8)
	if len(fields) < 8 || len(fields[0]) != 1 {
		return 0, a, 0, fmt.Errorf("line %q", line)
	}
	var n [6]int64
	for i := range n {
		if n[i], err = strconv.ParseInt(fields[i+1], 10, 64); err != nil {
			return 0, a, 0, fmt.Errorf("line %q: %w", line, err)
		}
	}
	at = time.Duration(n[5])
	return fields[0][0], taken{
		number: int32(n[0]), attempt: int32(n[1]), due: carillon.Time(n[2]), claimed: carillon.Time(n[3]),
		at: carillon.Time(n[4]), start: at, takes: fields[7],
	}, at, nil
}
