package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/client"
	"github.com/carillon-run/carillon/internal/wire"
)

// maxBatchBytes leaves room for the JSON around the jobs of one batch.
const maxBatchBytes = wire.MaxLargeBody - 1<<20

// submission is the jobs of one command.
type submission struct {
	file string
	defs []written
	key  string // idempotency key; empty: the command makes one
}

// context gives a request its idempotency key: the one of the command, or part of it if the command sends
// several requests.
func (s *submission) context(ctx context.Context, sent, batch int) context.Context {
	if s.key == "" {
		s.key = rand.Text()
	}
	key := s.key
	if batch < len(s.defs) {
		key = fmt.Sprintf("%s/%d", key, sent)
	}
	return client.WithIdempotencyKey(ctx, key)
}

// advice says how to give the command again after an error that does not say whether the jobs were
// submitted; empty: it does.
func (a *app) advice(s *submission, err error) string {
	var problem *client.Problem
	if errors.As(err, &problem) && problem.Status < 500 || !a.sent && noConnection(err) {
		return ""
	}
	return "Give the same command again with --idempotency-key " + s.key +
		": it submits what is missing, and nothing twice."
}

// submit sends all jobs, in as many batches as they need. With an error it returns the jobs that were
// accepted before it.
func (a *app) submit(
	ctx context.Context, c *client.Client, s submission,
) (jobs []carillon.Job, err error) {
	file, defs := s.file, s.defs
	if len(defs) == 1 {
		job, err := c.SubmitJSON(s.context(ctx, 0, 1), defs[0].body)
		if err != nil {
			return nil, withAdvice(inFile(file, defs, err), a.advice(&s, err))
		}
		return []carillon.Job{job}, nil
	}
	for len(jobs) < len(defs) {
		batch := nextBatch(defs[len(jobs):])
		bodies := make([][]byte, len(batch))
		for i := range batch {
			bodies[i] = batch[i].body
		}
		accepted, err := c.SubmitManyJSON(s.context(ctx, len(jobs), len(batch)), bodies)
		if err != nil {
			a.clearProgress()
			return jobs, withAdvice(
				inFile(file, batch, err), acceptedBefore(defs, len(jobs), len(batch), err), a.advice(&s, err),
			)
		}
		jobs = append(jobs, accepted...)
		if a.errTerminal && len(defs) > wire.MaxBatch {
			fmt.Fprintf(a.rawErr, "\r%d of %d jobs submitted", len(jobs), len(defs))
		}
	}
	a.clearProgress()
	return jobs, nil
}

// withAdvice is the error with lines to show below it.
func withAdvice(err error, lines ...string) error {
	lines = slices.DeleteFunc(lines, func(line string) bool { return line == "" })
	if len(lines) == 0 {
		return err
	}
	return &noted{err, lines}
}

func (a *app) clearProgress() {
	if a.errTerminal {
		fmt.Fprint(a.rawErr, "\r\x1b[K")
	}
}

func nextBatch(defs []written) []written {
	size := 0
	for i := range defs {
		if size += len(defs[i].body) + 1; i == wire.MaxBatch || i > 0 && size > maxBatchBytes {
			return defs[:i]
		}
	}
	return defs
}

// inFile adds to the error where in the file the refused job is.
func inFile(file string, batch []written, err error) error {
	var problem *client.Problem
	if file == "" || !errors.As(err, &problem) || problem.Field == "" {
		return err
	}
	at, field := 0, problem.Field
	if len(batch) > 1 {
		number, path, _ := strings.Cut(strings.TrimPrefix(field, "jobs["), "]")
		i, bad := strconv.Atoi(number)
		if bad != nil || i >= len(batch) {
			return err // the error is about the whole batch
		}
		at, field = i, strings.TrimPrefix(path, ".")
	}
	refused := *problem
	refused.Field = field
	return fmt.Errorf("%s: %w", inLine(file, &batch[at], at, field), &refused)
}

// inLine is the place of a field in a file: its line or, where that is not known, the number of the job.
func inLine(file string, def *written, number int, field string) string {
	if line := def.lineAt(field); line > 0 {
		return fmt.Sprintf("%s, line %d", fileName(file), line)
	}
	return fmt.Sprintf("%s, job %d", fileName(file), number+1)
}

func fileName(file string) string {
	if file == "-" {
		return "standard input"
	}
	return file
}

// acceptedBefore says which jobs of a file were submitted when one batch failed.
func acceptedBefore(defs []written, before, batch int, err error) string {
	var problem *client.Problem
	text := "Nothing of it was submitted."
	if before > 0 {
		text = fmt.Sprintf(
			"The first %s submitted, %s; those after were not.", were(before), upTo(defs[:before]),
		)
	}
	if errors.As(err, &problem) && problem.Status < 500 {
		return text
	}
	last := before + batch
	text = fmt.Sprintf(
		"Whether jobs %d to %d (%s) were submitted is not known.", before+1, last, upTo(defs[before:last]),
	)
	if before > 0 {
		text = fmt.Sprintf("The first %s submitted, %s. ", were(before), upTo(defs[:before])) + text
	}
	if last < len(defs) {
		text += " Those after were not."
	}
	return text
}

func were(n int) string {
	if n == 1 {
		return "job was"
	}
	return fmt.Sprintf("%d jobs were", n)
}

// upTo names the last line of a part of a file. For YAML with anchors the lines are not known.
func upTo(defs []written) string {
	last := defs[len(defs)-1]
	if last.line == 0 {
		return "by their order in the file"
	}
	return fmt.Sprintf("up to the one at line %d", last.line)
}
